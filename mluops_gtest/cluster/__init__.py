"""Cases on many machines: a Dask cluster runs them, this process keeps the results."""
