"""One page about runs, comparisons, gyms, reproductions and deployments, to read and to print."""
