// The Python module sparsefinder._native: turns arrays into what the kernels take, lets other Python threads run
// meanwhile, and calls them. Types, dimensions and contiguity of arrays are checked by their types here; that their
// sizes and what they hold fit together is for the callers to see to: native.py, centroids.py, shares.py and the like.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "constants.h"
#include "kernels.h"
#include "parallel.h"

namespace nb = nanobind;

namespace sparsefinder {

namespace {

using Input = nb::ndarray<const float, nb::ndim<4>, nb::device::cpu>;
using Output = nb::ndarray<float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Maps = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Alphas = std::vector<double>;

Vectors vectors(const Input& array) { return {array.data(), array.stride(0), array.stride(1), array.stride(2)}; }

// Call a kernel while other Python threads run; Ctrl-C ends it between two of its tasks, as it ends Python code.
template <class Call>
void released(const Call& call) {
  bool stopped = false;
  {
    nb::gil_scoped_release others_may_run;
    const Watch watch([] {
      nb::gil_scoped_acquire alone;
      return PyErr_CheckSignals() != 0;
    });
    try {
      call();
    } catch (const Interrupted&) {
      stopped = true;
    }
  }
  if (stopped) throw nb::python_error();
}

// A piece, and the arrays that it points into.
struct HeldPiece {
  Piece piece;
  nb::ndarray<> first, second, third, fourth, fifth, sixth, seventh, eighth;
};

bool has_avx2() {
#if defined(SPARSEFINDER_AVX2)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
  return false;
#endif
}

const Kernels& kernels(bool plain) {
#if defined(SPARSEFINDER_AVX2)
  if (!plain && has_avx2()) return avx2_kernels();
#endif
  (void)plain;
  return scalar_kernels();
}

Problem make_problem(const Input& q, const Input& k, const Input& v, const Alphas& alpha, double scale, bool causal,
                     const std::optional<Numbers>& query_offset, const std::optional<Numbers>& key_lengths,
                     const std::optional<Numbers>& query_lengths, const std::vector<const HeldPiece*>& pieces,
                     int threads) {
  Problem problem{};
  problem.batch = static_cast<int64_t>(q.shape(0));
  problem.heads = static_cast<int64_t>(q.shape(1));
  problem.n = static_cast<int64_t>(q.shape(2));
  problem.depth = static_cast<int64_t>(q.shape(3));
  problem.key_heads = static_cast<int64_t>(k.shape(1));
  problem.m = static_cast<int64_t>(k.shape(2));
  problem.width = static_cast<int64_t>(v.shape(3));
  problem.q = vectors(q);
  problem.k = vectors(k);
  problem.v = vectors(v);
  problem.alpha = alpha.data();
  problem.scale = scale;
  problem.causal = causal;
  problem.query_offset = query_offset ? query_offset->data() : nullptr;
  problem.key_lengths = key_lengths ? key_lengths->data() : nullptr;
  problem.query_lengths = query_lengths ? query_lengths->data() : nullptr;
  for (const HeldPiece* held : pieces) problem.pieces.push_back(held->piece);
  problem.threads = threads;
  return problem;
}

void define_constants(nb::module_& module) {
  module.attr("LANES") = kLanes;
  module.attr("NOTHING") = kNothing;
  module.attr("MOST_KEYS") = kMostKeys;
  module.attr("FEW_QUERIES") = kFewQueries;
  module.attr("LEAST_SCREENED") = kLeastScreened;
  module.attr("MOST_NEAREST") = kMostNearest;
  module.attr("CENTROIDS_TOGETHER") = kCentroidsTogether;
  module.attr("MOST_KEY_CODE") = kMostKeyCode;
  module.attr("MOST_QUERY_CODE") = kMostQueryCode;
  module.attr("LONGEST_KEY") = kLongestKey;
  module.attr("LONGEST_QUERY") = kLongestQuery;
  module.attr("MOST_CODES") = kMostCodes;
}

void define_support(nb::module_& module) {
  nb::class_<Support>(module, "Support")
      .def("total", &Support::total)
      .def(
          "write",
          [](const Support& support, nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig> rows,
             nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig> keys,
             nb::ndarray<float, nb::ndim<1>, nb::c_contig> weights) {
            support.write(rows.data(), keys.data(), weights.data());
          },
          "Write every entry's row, key and weight into arrays of `total()` numbers, in order of rows and keys.");
}

void define_pieces(nb::module_& module) {
  nb::class_<HeldPiece>(module, "Piece");
  module.def(
      "band",
      [](std::optional<int64_t> lower, std::optional<int64_t> upper, std::optional<Numbers> reaches) {
        HeldPiece held{};
        held.piece.kind = Kind::band;
        if (lower) held.piece.lower = *lower;
        if (upper) held.piece.upper = *upper;
        if (reaches) {
          held.piece.reaches = reaches->data();
          held.first = nb::ndarray<>(*reaches);
        }
        return held;
      },
      nb::arg("lower").none(), nb::arg("upper").none(), nb::arg("reaches").none());
  const auto tokens = [](Kind kind) {
    return [kind](nb::ndarray<const uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu> chosen) {
      HeldPiece held{};
      held.piece.kind = kind;
      held.piece.chosen = chosen.data();
      held.piece.batch = static_cast<int64_t>(chosen.shape(0));
      held.piece.heads = static_cast<int64_t>(chosen.shape(1));
      held.piece.span = static_cast<int64_t>(chosen.shape(2));
      held.first = nb::ndarray<>(chosen);
      return held;
    };
  };
  module.def("columns", tokens(Kind::columns));
  module.def("rows", tokens(Kind::rows));
  module.def("diagonals", tokens(Kind::diagonals));
  module.def("blocks", [](Numbers offsets, Numbers blocks, int64_t batch, int64_t heads, int64_t query_size,
                          int64_t key_size) {
    HeldPiece held{};
    held.piece.kind = Kind::blocks;
    held.piece.offsets = offsets.data();
    held.piece.blocks = blocks.data();
    held.piece.batch = batch;
    held.piece.heads = heads;
    held.piece.query_blocks = (static_cast<int64_t>(offsets.shape(0)) - 1) / std::max<int64_t>(batch * heads, 1);
    held.piece.query_size = query_size;
    held.piece.key_size = key_size;
    held.first = nb::ndarray<>(offsets);
    held.second = nb::ndarray<>(blocks);
    return held;
  });
  using Slots = nb::ndarray<const int64_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
  const auto put_buckets = [](HeldPiece& held, const Slots& queries, const Slots& keys) {
    held.piece.query_buckets = queries.data();
    held.piece.batch = static_cast<int64_t>(queries.shape(0));
    held.piece.heads = static_cast<int64_t>(queries.shape(1));
    held.piece.query_slots = static_cast<int64_t>(queries.shape(3));
    held.piece.key_buckets = keys.data();
    held.piece.key_batch = static_cast<int64_t>(keys.shape(0));
    held.piece.key_heads = static_cast<int64_t>(keys.shape(1));
    held.piece.key_slots = static_cast<int64_t>(keys.shape(3));
    held.first = nb::ndarray<>(queries);
    held.second = nb::ndarray<>(keys);
  };
  module.def("buckets", [put_buckets](Slots queries, Slots keys) {
    HeldPiece held{};
    held.piece.kind = Kind::buckets;
    put_buckets(held, queries, keys);
    return held;
  });
  using Codes = nb::ndarray<const int8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
  using Limits = nb::ndarray<const int32_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
  using Points = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
  module.def(
      "rule",
      [put_buckets](Codes queries, Codes keys, Limits limits, Numbers ranks, bool relative,
                    std::optional<Slots> query_buckets, std::optional<Slots> key_buckets) {
        HeldPiece held{};
        held.piece.kind = Kind::rule;
        if (query_buckets && key_buckets) put_buckets(held, *query_buckets, *key_buckets);
        held.piece.query_codes = queries.data();
        held.piece.key_codes = keys.data();
        held.piece.limits = limits.data();
        held.piece.ranks = ranks.data();
        held.piece.relative = relative;
        held.piece.code_heads = static_cast<int64_t>(queries.shape(1));
        held.piece.rank = static_cast<int64_t>(queries.shape(3));
        held.third = nb::ndarray<>(queries);
        held.fourth = nb::ndarray<>(keys);
        held.fifth = nb::ndarray<>(limits);
        held.sixth = nb::ndarray<>(ranks);
        return held;
      },
      "Pairs whose product of codes reaches the row's limit. Tables are for all sequences and heads.",
      nb::arg("queries"), nb::arg("keys"), nb::arg("limits"), nb::arg("ranks"), nb::arg("relative"),
      nb::arg("query_buckets").none(), nb::arg("key_buckets").none());
  module.def(
      "sketched",
      [put_buckets](Input q, Input k, Maps query_maps, Maps key_maps,
                    nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> slack, Numbers ranks,
                    std::optional<Slots> query_buckets, std::optional<Slots> key_buckets) {
        HeldPiece held{};
        held.piece.kind = Kind::rule;
        if (query_buckets && key_buckets) put_buckets(held, *query_buckets, *key_buckets);
        held.piece.query_tokens = vectors(q);
        held.piece.key_tokens = vectors(k);
        held.piece.query_maps = query_maps.data();
        held.piece.key_maps = key_maps.data();
        held.piece.slack = slack.data();
        held.piece.ranks = ranks.data();
        held.piece.token_size = static_cast<int64_t>(q.shape(3));
        held.piece.width = static_cast<int64_t>(query_maps.shape(2));
        held.piece.token_group = static_cast<int64_t>(q.shape(1) / std::max<size_t>(k.shape(1), 1));
        held.third = nb::ndarray<>(q);
        held.fourth = nb::ndarray<>(k);
        held.fifth = nb::ndarray<>(query_maps);
        held.sixth = nb::ndarray<>(key_maps);
        held.seventh = nb::ndarray<>(slack);
        held.eighth = nb::ndarray<>(ranks);
        return held;
      },
      "Pairs whose product, both mapped and rounded, lacks at most the head's slack to all better ones of the row.",
      nb::arg("q"), nb::arg("k"), nb::arg("query_maps"), nb::arg("key_maps"), nb::arg("slack"), nb::arg("ranks"),
      nb::arg("query_buckets").none(), nb::arg("key_buckets").none());
  module.def(
      "near",
      [](Points queries, Points keys, nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu> radii) {
        HeldPiece held{};
        held.piece.kind = Kind::near;
        held.piece.query_points = queries.data();
        held.piece.key_points = keys.data();
        held.piece.radii = radii.data();
        held.piece.code_heads = static_cast<int64_t>(queries.shape(1));
        held.piece.rank = static_cast<int64_t>(queries.shape(3));
        held.first = nb::ndarray<>(queries);
        held.second = nb::ndarray<>(keys);
        held.third = nb::ndarray<>(radii);
        return held;
      },
      "Pairs whose squared distance is up to the head's. Tables are for all sequences and heads.");
}

void define_attention(nb::module_& module) {
  module.def(
      "forward",
      [](Input q, Input k, Input v, Output out, Alphas alpha, double scale, bool causal,
         std::optional<Numbers> query_offset, std::optional<Numbers> key_lengths, std::optional<Numbers> query_lengths,
         std::vector<const HeldPiece*> pieces, bool screened, int threads, bool plain, bool save,
         std::optional<nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>> computed) {
        Problem problem =
            make_problem(q, k, v, alpha, scale, causal, query_offset, key_lengths, query_lengths, pieces, threads);
        problem.out = out.data();
        problem.screened = screened;
        problem.computed = computed ? computed->data() : nullptr;
        auto support = save ? std::make_unique<Support>() : nullptr;
        Report report;
        released([&] { kernels(plain).forward(problem, support.get(), report); });
        return nb::make_tuple(std::move(support), report.nonfinite);
      },
      "Write the result into `out`. Returns the support, if it is to be saved, and whether a number was not finite.",
      nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("out"), nb::arg("alpha"), nb::arg("scale"), nb::arg("causal"),
      nb::arg("query_offset").none(), nb::arg("key_lengths").none(), nb::arg("query_lengths").none(), nb::arg("pieces"),
      nb::arg("screened"), nb::arg("threads"), nb::arg("plain"), nb::arg("save"), nb::arg("computed").none());

  module.def(
      "backward",
      [](Input q, Input k, Input v, Input grad, Output grad_q, Output grad_k, Output grad_v, Alphas alpha, double scale,
         std::optional<nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>> grad_alpha,
         const Support& support, int threads, bool plain) {
        const Problem problem =
            make_problem(q, k, v, alpha, scale, false, std::nullopt, std::nullopt, std::nullopt, {}, threads);
        const Kernels& chosen = kernels(plain);
        const int64_t blocks = chosen.backward_blocks(problem.n);
        std::vector<double> parts(grad_alpha ? problem.batch * problem.heads * blocks : 0);
        released([&] {
          chosen.backward(problem, support, vectors(grad), grad_q.data(), grad_k.data(), grad_v.data(),
                          grad_alpha ? parts.data() : nullptr);
        });
        if (grad_alpha)
          for (int64_t part = 0; part < static_cast<int64_t>(parts.size()); ++part)
            grad_alpha->data()[part / blocks % problem.heads] += parts[part];
      },
      "Write the gradients; that of alpha is added to what is there.", nb::arg("q"), nb::arg("k"), nb::arg("v"),
      nb::arg("grad"), nb::arg("grad_q"), nb::arg("grad_k"), nb::arg("grad_v"), nb::arg("alpha"), nb::arg("scale"),
      nb::arg("grad_alpha").none(), nb::arg("support"), nb::arg("threads"), nb::arg("plain"));
}

void define_assigning(nb::module_& module) {
  using Places = nb::ndarray<int64_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
  using Table = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
  module.def(
      "nearest",
      [](Input tokens, Maps centroids, nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu> offsets,
         Places out, int threads, bool plain) {
        Nearest work{};
        work.tokens = vectors(tokens);
        work.apart = tokens.stride(3);
        work.centroids = centroids.data();
        work.offsets = offsets.data();
        work.batch = static_cast<int64_t>(tokens.shape(0));
        work.heads = static_cast<int64_t>(tokens.shape(1));
        work.length = static_cast<int64_t>(tokens.shape(2));
        work.depth = static_cast<int64_t>(tokens.shape(3));
        work.width = static_cast<int64_t>(offsets.shape(1));
        work.count = static_cast<int64_t>(out.shape(3));
        work.out = out.data();
        work.threads = threads;
        released([&] { kernels(plain).nearest(work); });
      },
      "Write the centroids nearest to each token into `out`.", nb::arg("tokens"), nb::arg("centroids"),
      nb::arg("offsets"), nb::arg("out"), nb::arg("threads"), nb::arg("plain"));
  module.def(
      "bins",
      [](Table numbers, Table edges, int64_t bins, Places out, int threads, bool plain) {
        Bins work{};
        work.numbers = numbers.data();
        work.edges = edges.data();
        work.heads = static_cast<int64_t>(numbers.shape(0) * numbers.shape(1));
        work.depth = static_cast<int64_t>(numbers.shape(2));
        work.length = static_cast<int64_t>(numbers.shape(3));
        work.count = static_cast<int64_t>(edges.shape(3));
        work.bins = bins;
        work.out = out.data();
        work.threads = threads;
        released([&] { kernels(plain).bins(work); });
      },
      "Write the bin of each token in each dimension into `out`.", nb::arg("numbers"), nb::arg("edges"),
      nb::arg("bins"), nb::arg("out"), nb::arg("threads"), nb::arg("plain"));
}

void define_choosing(nb::module_& module) {
  using Scores = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  const auto rows_of = [](const Scores& scores, const Numbers& seen, int threads) {
    return Rows{scores.data(), seen.data(), static_cast<int64_t>(scores.shape(0)),
                static_cast<int64_t>(scores.shape(1)), threads};
  };
  module.def(
      "reach",
      [rows_of](Scores scores, Numbers seen, Numbers wanted,
                nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu> limits,
                nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> counts, int threads, bool plain) {
        released(
            [&] { kernels(plain).reach(rows_of(scores, seen, threads), wanted.data(), limits.data(), counts.data()); });
      },
      "Write how low the `wanted` highest scores of each row reach, and how many reach it.");
  module.def(
      "list_keys",
      [rows_of](Scores scores, Numbers seen,
                nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu> limits, Numbers starts,
                nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> keys, int threads, bool plain) {
        released([&] {
          kernels(plain).list_keys(rows_of(scores, seen, threads), limits.data(), starts.data(), keys.data());
        });
      },
      "Write the keys whose scores reach the limit of their row, from where the row starts on.");
}

void define_sketching(nb::module_& module) {
  using Table = nb::ndarray<float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
  module.def(
      "map_tokens",
      [](Input tokens, Maps maps, std::optional<Maps> layer, Table out, int threads, bool plain) {
        Mapping work{};
        work.tokens = vectors(tokens);
        work.maps = maps.data();
        work.layer = layer ? layer->data() : nullptr;
        work.units = layer ? static_cast<int64_t>(layer->shape(2)) : 0;
        work.batch = static_cast<int64_t>(tokens.shape(0));
        work.token_heads = static_cast<int64_t>(tokens.shape(1));
        work.length = static_cast<int64_t>(tokens.shape(2));
        work.depth = static_cast<int64_t>(tokens.shape(3));
        work.heads = static_cast<int64_t>(maps.shape(0));
        work.width = static_cast<int64_t>(maps.shape(2));
        work.rank = static_cast<int64_t>(out.shape(3));
        work.out = out.data();
        work.threads = threads;
        released([&] { kernels(plain).map_tokens(work); });
      },
      "Write every token times its head's map into `out`, or first followed by what the units of a layer say of it. "
      "Sizes of tokens need not be multiples of anything.",
      nb::arg("tokens"), nb::arg("maps"), nb::arg("layer").none(), nb::arg("out"), nb::arg("threads"),
      nb::arg("plain"));
  module.def(
      "round_points",
      [](nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu> points,
         nb::ndarray<int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> codes,
         std::optional<nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>> units, int threads, bool plain) {
        Rounding work{};
        work.points = points.data();
        work.count = static_cast<int64_t>(points.shape(0));
        work.rank = static_cast<int64_t>(points.shape(1));
        work.width = static_cast<int64_t>(codes.shape(1));
        work.codes = codes.data();
        work.units = units ? units->data() : nullptr;
        work.threads = threads;
        released([&] { kernels(plain).round_points(work); });
        return work.nonfinite;
      },
      "Write the codes of points, and what queries were multiplied by. Returns whether a number was not finite.",
      nb::arg("points"), nb::arg("codes"), nb::arg("units").none(), nb::arg("threads"), nb::arg("plain"));
}

// What an index is made with, which does not change, and the arrays that it points into.
struct HeldMaps {
  Index index;
  nb::ndarray<> query_maps, key_maps, ranks, offsets, means;
};

void define_index(nb::module_& module) {
  using Panels = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  using Each = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using Bounds = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  const auto with = [](const HeldMaps& maps, const Panels& panels, int64_t capacity) {
    Index index = maps.index;
    index.panels = panels.data();
    index.batch = static_cast<int64_t>(panels.shape(0));
    index.row = static_cast<int64_t>(panels.shape(1));
    index.capacity = capacity;
    return index;
  };
  nb::class_<HeldMaps>(module, "IndexMaps");
  using Table = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  module.def(
      "index_maps",
      [](Maps query_maps, Maps key_maps, Numbers ranks, std::optional<Table> offsets, std::optional<Table> means) {
        HeldMaps held{};
        if (offsets && means) {
          held.index.offsets = offsets->data();
          held.index.means = means->data();
          held.offsets = nb::ndarray<>(*offsets);
          held.means = nb::ndarray<>(*means);
        }
        held.index.heads = static_cast<int64_t>(query_maps.shape(0));
        held.index.depth = static_cast<int64_t>(query_maps.shape(1));
        held.index.width = static_cast<int64_t>(query_maps.shape(2));
        held.index.query_maps = query_maps.data();
        held.index.key_maps = key_maps.data();
        held.index.ranks = ranks.data();
        held.query_maps = nb::ndarray<>(query_maps);
        held.key_maps = nb::ndarray<>(key_maps);
        held.ranks = nb::ndarray<>(ranks);
        return held;
      },
      nb::arg("query_maps"), nb::arg("key_maps"), nb::arg("ranks"), nb::arg("offsets").none(), nb::arg("means").none());
  module.def(
      "append_keys",
      [with](const HeldMaps& maps, Panels panels, int64_t capacity, Input keys, int64_t first, int threads,
             bool plain) {
        Appending work{};
        work.index = with(maps, panels, capacity);
        work.keys = vectors(keys);
        work.key_heads = static_cast<int64_t>(keys.shape(1));
        work.first = first;
        work.count = static_cast<int64_t>(keys.shape(2));
        work.threads = threads;
        released([&] { kernels(plain).append_keys(work); });
        return work.nonfinite;
      },
      "Write the codes of keys after the first ones of an index. Returns whether a number was not finite.");
  module.def(
      "ask_index",
      [with](const HeldMaps& maps, Panels panels, int64_t capacity, Input q, Input k, Input v, Output out, Bounds lows,
             Bounds highs, Alphas alpha, double scale, std::optional<Each> slack, std::optional<Each> share,
             int threads, bool plain,
             std::optional<nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>> computed) {
        IndexCall call{};
        call.problem =
            make_problem(q, k, v, alpha, scale, false, std::nullopt, std::nullopt, std::nullopt, {}, threads);
        call.problem.out = out.data();
        call.problem.computed = computed ? computed->data() : nullptr;
        call.index = with(maps, panels, capacity);
        call.lows = lows.data();
        call.highs = highs.data();
        call.slack = slack ? slack->data() : nullptr;
        call.share = share ? share->data() : nullptr;
        released([&] { kernels(plain).ask_index(call); });
        return call.nonfinite;
      },
      "Attend over what an index says, into `out`. Returns whether a number was not finite.", nb::arg("maps"),
      nb::arg("panels"), nb::arg("capacity"), nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("out"), nb::arg("lows"),
      nb::arg("highs"), nb::arg("alpha"), nb::arg("scale"), nb::arg("slack").none(), nb::arg("share").none(),
      nb::arg("threads"), nb::arg("plain"), nb::arg("computed").none());
}

}  // namespace

NB_MODULE(_native, module) {
  define_constants(module);
  define_support(module);
  define_pieces(module);
  define_attention(module);
  define_assigning(module);
  define_choosing(module);
  define_sketching(module);
  define_index(module);
  module.def("has_avx2", &has_avx2, "Whether the kernels for AVX2 are there and this processor can run them.");
}

}  // namespace sparsefinder
