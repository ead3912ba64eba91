"""A Ray cluster of several nodes on this machine, each with copies of its own, and an S3 server on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

# No worker looks for cloud metadata or says how it is used.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "AWS_EC2_METADATA_DISABLED": "true"}


@contextmanager
def cluster(folder: Path, nodes: int = 2) -> Iterator[Any]:
    """A head that only schedules, and so many nodes of one processor."""
    os.environ.update(QUIET)
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for number in range(nodes):
            add_node(made, folder / f"node-{number}")
        made.wait_for_nodes()
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def add_node(made: Any, copies: Path) -> Any:
    return made.add_node(num_cpus=1, env_vars={"SPARSEFINDER_CACHE": str(copies), "OMP_NUM_THREADS": "1"})


@contextmanager
def s3() -> Iterator[dict[str, str]]:
    """What a process needs in its environment to use the bucket s3://bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    server = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                urlopen(url, timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        environment = {**keys, "AWS_ENDPOINT_URL": url}
        code = "import fsspec; fsspec.filesystem('s3').mkdir('bucket')"
        subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | environment)
        yield environment
    finally:
        server.kill()
        server.wait()
