"""A Dask cluster in a process of its own: prints its address, and ends with its standard input.

Arguments: the number of workers, the port, the protocol.
"""

import sys

from distributed import LocalCluster

if __name__ == "__main__":
    workers, port = int(sys.argv[1]), int(sys.argv[2])
    with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        scheduler_port=port,
        silence_logs=50,
        protocol=sys.argv[3],
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
