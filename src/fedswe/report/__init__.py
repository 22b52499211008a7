"""One page about runs, comparisons, gyms and reproductions, to read and to print."""
