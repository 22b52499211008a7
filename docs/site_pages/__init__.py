"""Pages of the site that are made of the package itself, each as Markdown."""
