"""Words that people search for, by the page that answers."""

from __future__ import annotations

SYNONYMS = {
    "install.md": ["install", "pip", "conda", "wheel", "setup", "requirements"],
    "coming-from.md": ["pandas", "polars", "xarray", "scanpy", "networkx", "igraph", "duckdb", "scipy", "sklearn",
                       "groupby", "filter", "sort", "unique", "value_counts", "cheat sheet", "migration"],
    "recipes/ratings.md": ["movielens", "csv", "recommender", "ratings"],
    "recipes/cells.md": ["single cell", "scanpy", "anndata", "normalize", "hvg", "pca", "umap", "leiden", "10x"],
    "recipes/embeddings.md": ["embedding", "node2vec", "deepwalk", "link prediction"],
    "recipes/search.md": ["tfidf", "search engine", "cosine similarity", "bm25", "document"],
    "recipes/libsvm.md": ["svmlight", "classifier", "logistic regression"],
    "howto/graphs.md": ["graph", "network", "pagerank", "adjacency", "edges"],
    "howto/ratings.md": ["recommender", "collaborative filtering", "csv", "movielens", "dataframe"],
    "howto/cluster.md": ["pickle", "joblib", "multiprocessing", "cluster", "parallel"],
    "howto/dask.md": ["dask", "distributed"],
    "howto/ray.md": ["ray"],
    "howto/spark.md": ["spark", "pyspark", "databricks", "sail"],
    "howto/shell.md": ["cli", "terminal", "bash", "console"],
    "training.md": ["classifier", "regression", "svm", "sgd", "deep learning", "dataloader"],
    "reference/tensor.md": ["plot", "pandas", "groupby", "slice", "head"],
    "reference/graph.md": ["louvain", "leiden", "community detection", "centrality", "shortest path", "clustering"],
    "reference/linalg.md": ["pca", "svd", "eigenvalues", "truncated svd", "dimensionality reduction"],
    "reference/models.md": ["embedding", "matrix factorization", "recommendation"],
    "reference/training.md": ["normalize", "scale", "tfidf", "standardize", "one-hot", "train test split"],
    "reference/sql-and-explain.md": ["query", "query plan", "duckdb", "profile"],
    "reference/ingest.md": ["read", "load", "import", "csv", "parquet"],
    "reference/reductions.md": ["groupby", "aggregate", "average"],
    "reference/types-and-settings.md": ["config", "memory limit", "threads", "options"],
}  # fmt: skip
"""Tags of the pages in the index of the search; they are not shown."""
