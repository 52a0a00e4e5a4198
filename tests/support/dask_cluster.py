"""A Dask cluster in a process of its own: prints its address, and ends with its standard input.

Argument: the number of workers.
"""

import sys

import dask
from distributed import LocalCluster

if __name__ == "__main__":
    dask.config.set(
        {
            # A worker that dies comes back, however long that takes a busy machine; Dask would give it up after 15 s.
            "distributed.deploy.lost-worker-timeout": "1h",
            # What Dask measures of itself keeps idle processes busy.
            "distributed.worker.profile.enabled": False,
            "distributed.admin.tick.interval": "1s",
            "distributed.admin.system-monitor.interval": "10s",
        }
    )
    with LocalCluster(
        n_workers=int(sys.argv[1]), threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
