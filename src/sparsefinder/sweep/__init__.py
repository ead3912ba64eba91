"""From traces to points: settings, fitting, sparsity and recall, sparsity and accuracy."""
