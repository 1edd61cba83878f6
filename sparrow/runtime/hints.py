"""Hints in errors of missing attributes: the name here, or the nearest one.

One table per class or module. A hint is one or more expressions that run, in the names of ``docs/coming-from.md``: a
tensor ``A`` of dimensions ``user`` and ``film``, a data frame ``df``, a model ``m``; tests evaluate every one of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["TABLES", "HintedAttributes", "HintedModule", "hinted_getattr", "missing_attribute"]

_READ_TABLE = 'sp.ingest.columns("r.csv", "new.sparrow", coords=["user", "film"], value="stars")'
_FRAME = 'sp.from_relation(df, coords=["user", "film"])'
_SQL = 'sp.sql("from A where value > 3", A=A)'
_GROUP = 'sp.sql("select user, sum(value) from A group by user", A=A)'
_JOIN = 'sp.sql("select * from A join B using (user, film)", A=A, B=B)'
_SAVE = 'A.save("new.sparrow")'


def _same_hint(names: str, *hint: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(names.split(), hint)


_TENSOR = {
    **_same_hint(
        "toarray todense to_dense to_array as_numpy numpy values maybe_densify A", "A.to_numpy()"
    ),
    **{f"to{kind}": (f"A.to_scipy({kind!r})",) for kind in ("coo", "csr", "csc", "bsr", "dia", "dok", "lil")},
    **{f"to_{kind}": (f"A.to_scipy({kind!r})",) for kind in ("coo", "csr", "csc", "bsr", "dia", "dok", "lil")},
    **{name: (f'A.to_format("coo").{name}',) for name in ("coords", "data")},
    **{name: (f'A.to_format("csr").{name}',) for name in ("indices", "indptr")},
    **_same_hint("row col", 'A.to_format("coo").coords'),
    **{name: (f"np.{name}(A)",) for name in (
        "ceil", "cov", "diff", "exp", "expm1", "floor", "histogram", "isfinite", "isinf", "isnan", "log",
        "log10", "log1p", "log2", "median", "nan_to_num", "sign", "sin", "sort", "sqrt", "square", "tanh",
    )},
    **{name: (f"np.{name}(A, 0.5)",) for name in ("quantile", "nanquantile")},
    **{name: (f"np.{name}(A, B)",) for name in ("maximum", "minimum")},
    **{name: (f"np.{name}(A, 2)",) for name in ("repeat", "roll", "tile")},
    "percentile": ("np.percentile(A, 50)",),
    "compress": ("A[:, [True, False, True, False]]",),
    **_same_hint("abs absolute", "abs(A)"),
    **_same_hint("add plus", "A + B"),
    **_same_hint("sub subtract minus", "A - B"),
    **_same_hint("mul multiply times", "A * B"),
    **_same_hint("div divide truediv", "A / 2"),
    **_same_hint("pow power", "A ** n"),
    **_same_hint("eq equals", "A == B", "(A == B).all()"),
    **_same_hint("gt ge lt le", "A > 3", "A <= B"),
    **_same_hint("matmul mm mv spmm", "A @ B.T"),
    "tensordot": ("sp.tensordot(A, B)",),
    **_same_hint("isna isnull", "np.isnan(A)"),
    "fillna": ("np.nan_to_num(A)",),
    "isin": ("sp.isin(A, [1, 2])",),
    **_same_hint("apply map applymap transform pipe", "np.log1p(A)", "sp.where(A > 3, A, 0)"),
    **_same_hint("groupby group_by agg aggregate pivot pivot_table", 'A.sum(axis="film")', _GROUP),
    **_same_hint("filter query where mask masked_fill", "A * (A > 3)", _SQL),
    **_same_hint("sql select", _SQL),
    **_same_hint("loc at xs", 'A.sel(user="ann")'),
    **_same_hint("iloc iat getrow", "A[3]"),
    "getcol": ("A[:, 3]",),
    **_same_hint("join merge", "A + B", "A * B", _JOIN),
    **_same_hint("columns index coordinates", "A.dims", 'A.labels("film")'),
    **_same_hint("sizes", "A.shape", "A.dims"),
    **_same_hint("unique nunique drop_duplicates distinct", "sp.unique_values(A)", 'A.labels("user")'),
    **_same_hint("nlargest sort_values largest", "A.topk(5)"),
    "nsmallest": ("A.topk(5, largest=False)",),
    **_same_hint("info summary stats", "A.describe()"),
    **_same_hint("plot show imshow", "A.hist()", "A.spy()"),
    **_same_hint("cummax", "np.maximum.accumulate(A)"),
    **_same_hint("cummin", "np.minimum.accumulate(A)"),
    **_same_hint("count_nonzero", "A.count(axis=0)"),
    **_same_hint("getnnz", "A.nnz", "A.count(axis=0)"),
    **_same_hint("degree degrees", "sp.graph.degrees(G)"),
    "normalize": ("A / A.norm(axis=1, keepdims=True)",),
    **_same_hint("expand_dims unsqueeze", "A[None]"),
    **_same_hint("permute permute_dims", "A.transpose(1, 0)"),
    **_same_hint("moveaxis", "sp.moveaxis(A, 0, 1)"),
    **_same_hint("view reindex_like", "A.reshape(-1)"),
    **_same_hint("flip", "sp.flip(A)", "A[::-1]"),
    "broadcast_to": ("sp.broadcast_to(A, shape)",),
    **_same_hint("H getH", "A.conj().mT"),
    "asfptype": ('A.astype("float64")',),
    **_same_hint("format getformat", "A.stype"),
    "itemsize": ("A.dtype.itemsize",),
    "tobytes": ("A.to_numpy().tobytes()",),
    "setdiag": ("A[i, i] = values",),
    **_same_hint("insert update set assign put_along_axis", "A.put(coords, values)", "A[i, j] = 1"),
    **_same_hint("drop delete remove discard", "A[i, j] = 0", "A[1:]"),
    "eliminate_zeros": ("A.refill(0)",),
    **_same_hint("commit transaction begin", "A.edit()"),
    **_same_hint("concat concatenate vstack", "sp.concat([A, B])"),
    "hstack": ("sp.concat([A, B], axis=1)",),
    **_same_hint("extend upsert insert_rows push add_rows", 'A.append(B, duplicates="last")'),
    **_same_hint("iterrows itertuples iter_rows items", "A.to_batches()", 'A.to_pandas().itertuples()'),
    **_same_hint("collect execute evaluate", "A.compute()"),
    **_same_hint("cache load", "A.persist()"),
    **_same_hint("write store dump to_disk to_pickle to_zarr to_hdf to_delta", _SAVE),
    "to_csv": ('sp.export(A, "new.csv")',),
    "to_parquet": ('sp.export(A, "new.parquet")', _SAVE),
    **_same_hint("to_feather to_ipc", 'sp.export(A, "new.arrow")'),
    "to_mtx": ('sp.export(A, "new.mtx")',),
    **_same_hint("to_sparse to_scipy_sparse to_scipy_sparse_array", "A.to_scipy()"),
    **_same_hint("to_frame to_dataframe to_df df", "A.to_pandas()", "A.to_polars()"),
    **_same_hint("to_duckdb to_relation", 'sp.sql("from A", A=A)'),
    **_same_hint("to_dict to_dicts", "A.to_arrow().to_pydict()"),
    **_same_hint("to_list", "A.tolist()"),
    **_same_hint("as_of at_version checkout time_travel", 'sp.open("r.sparrow", version=0)'),
    **_same_hint("versions log snapshots", "A.history()"),
    **_same_hint("explain_plan query_plan", "A.explain()"),
    **_same_hint("optimize defragment repartition", "A.compact()"),
}  # fmt: skip

_SPARROW = {
    **_same_hint(
        "array tensor Array SparseTensor asanyarray as_tensor asarray_chkfinite from_numpy from_scipy from_pydata "
        "from_dense from_sparse from_networkx from_torch csr_array csr_matrix csc_array csc_matrix coo_array "
        "coo_matrix sparray",
        "sp.asarray(M)",
    ),
    **_same_hint("COO from_coo sparse_coo_tensor", "sp.from_coords(coords, values)", "sp.formats.COO"),
    **_same_hint("CSR CSC RowSparse", "sp.formats.CSR", "sp.formats.CSC", "sp.formats.RowSparse"),
    **_same_hint(
        "from_pandas from_polars from_arrow from_table from_dataframe from_duckdb from_sql from_query read_sql "
        "DataFrame pivot",
        _FRAME,
    ),
    **_same_hint("read load open_tensor open_zarr connect", 'sp.open("r.sparrow")', _READ_TABLE),
    **_same_hint("read_csv read_table scan_csv from_csv read_delimited loadtxt genfromtxt", _READ_TABLE),
    **_same_hint("read_parquet scan_parquet from_parquet", _READ_TABLE.replace("r.csv", "r.parquet")),
    **_same_hint("read_mtx mmread from_mtx", 'sp.ingest.mtx("r.mtx", "new.sparrow")'),
    **_same_hint("read_edgelist from_edges read_edges", 'sp.ingest.edges("r.txt", "new.sparrow")'),
    **_same_hint("load_svmlight_file read_libsvm", 'sp.ingest.libsvm("r.libsvm", "new.sparrow")'),
    **_same_hint("load_npz", 'sp.asarray("r.npz")'),
    "save_npz": ('A.to_npz("new.npz")',),
    **_same_hint("save write dump", _SAVE),
    **_same_hint("to_csv write_csv savetxt", 'sp.export(A, "new.csv")'),
    **_same_hint("hstack column_stack", "sp.concat([A, B], axis=1)"),
    **_same_hint("vstack row_stack concatenate append", "sp.concat([A, B])"),
    "dstack": ("sp.stack([A, B], axis=-1)",),
    **_same_hint("diag diags", "sp.diagonal(G)", "sp.eye(3) * [1, 2, 3]"),
    "identity": ("sp.eye(3)",),
    **_same_hint("rand randn", "sp.random((3, 4), density=0.5)"),
    **_same_hint("dot mm", "A @ B.T", "sp.matmul(A, B.T)"),
    "outer": ("np.multiply.outer(A, x)", "sp.linalg.outer(x, x)"),
    "nanmedian": ("np.nanmedian(A)",),
    "percentile": ("np.percentile(A, 50)",),
    **_same_hint("histogram hist", "A.hist()"),
    **_same_hint("absolute", "sp.abs(A)"),
    **_same_hint("power", "sp.pow(A, 2)"),
    **_same_hint("mod", "sp.remainder(A, 2)"),
    **{f"arc{name}": (f"sp.a{name}(A)",) for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    "arctan2": ("sp.atan2(A, B)",),
    "swapaxes": ("A.swapaxes(0, 1)",),
    **_same_hint("permute", "sp.permute_dims(A, (1, 0))"),
    **_same_hint("groupby", 'A.sum(axis="film")', _GROUP),
    **_same_hint("merge join", "A + B", "A * B", _JOIN),
    **_same_hint("query execute", _SQL),
    **_same_hint("norm inv solve svd eigsh svds qr cholesky", "sp.linalg.svds(A, k=2)", "sp.linalg.norm(A)"),
    **_same_hint("pca PCA TruncatedSVD", "sp.linalg.pca(A, k=2)", "sp.linalg.svds(A, k=2)"),
    **_same_hint("pagerank connected_components bfs shortest_path shortest_paths Graph", "sp.graph.pagerank(G)"),
    "NearestNeighbors": ("sp.neighbors(A, k=2)",),
    **{name: (f"sp.models.{name}()",) for name in (
        "ALS", "FactorizationMachine", "LinearRegression", "LogisticRegression",
    )},
    **{name: (f"sp.optim.{name}()",) for name in ("SGD", "Adam", "AdaGrad", "FTRL")},
    "train_test_split": ("sp.training.train_test_split(A)",),
    **_same_hint("TfidfTransformer idf", "A * sp.training.idf(A)"),
    **_same_hint("OneHotEncoder one_hot get_dummies", 'sp.training.one_hot(df, ["user"])'),
    **_same_hint("DataLoader", "sp.batches(A, y, 2)"),
    **_same_hint("SparrowError", "sp.errors.SparrowError"),
    **_same_hint("set_option set_options options settings set_config get_config", 'sp.config(memory_limit="4GB")'),
    **_same_hint("versions version", "sp.__version__", "sp.show_versions()"),
    "info": ("A.describe()",),
    **_same_hint("load_dataset fetch", "sp.datasets.list()"),
}  # fmt: skip

_RECOMMENDER = {
    **_same_hint("similar_items similar_users neighbors nearest most_similar", "m.similar([0])"),
    **_same_hint("recommend_items recommend_for_user recommend_for_users get_recommendations rank_items top_items",
            "m.recommend([0])"),
    **_same_hint("recommend_for_all recommend_all_users", 'm.recommend_all("new.parquet")'),
    **_same_hint("fit_transform partial_fit train", "m.fit(A)"),
    **_same_hint("transform recalculate_user partial_fit_users", "m.fold_in(A)"),
    **_same_hint("user_embeddings user_vectors users", "m.user_factors_"),
    **_same_hint("item_embeddings item_vectors items components_ embeddings_", "m.item_factors_"),
    **_same_hint("dump to_pickle save_model", 'm.save("new.model")'),
    **_same_hint("load_model", 'm.load("m.model")', 'sp.models.load("m.model")'),
    **_same_hint("params set_param parameters", "m.get_params()"),
    **_same_hint("score score_samples evaluate rmse cross_val_score", "sp.models.evaluation.rmse(m, A)"),
}  # fmt: skip

_ESTIMATOR = {
    **_same_hint("score_samples", "m.decision_function(A)"),
    **_same_hint("predict_log_proba", "np.log(m.predict_proba(A))"),
    **_same_hint("classes", "m.classes_"),
    **_same_hint("weights weight coef coef_0", "m.coef_", "m.coefficients()"),
    **_same_hint("bias intercept", "m.intercept_"),
    **_same_hint("train fit_transform", "m.fit(A, y)"),
    **_same_hint("dump to_pickle save_model", 'm.save("new.model")'),
    **_same_hint("load_model", 'm.load("m.model")', 'sp.models.load("m.model")'),
    **_same_hint("params set_param parameters", "m.get_params()"),
    **_same_hint("accuracy", "m.score(A, y)", "m.evaluate(A, y)"),
}

TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "Tensor": _TENSOR,
    "Recommender": _RECOMMENDER,
    "Estimator": _ESTIMATOR,
    "Batch": {
        **_same_hint("x features inputs", "batch.X"),
        **_same_hint("labels target targets", "batch.y"),
        **_same_hint("toarray todense to_numpy numpy", "batch.to_scipy().toarray()"),
        "shape": ("batch.X.shape",),
    },
    "Batches": {**_same_hint("next get_batch", "next(iter(batches))"), "set_epoch": ("batches.of_epoch(1)",)},
    "Bundle": {
        "X": ('bundle["X"]',),
        "y": ('bundle["y"]',),
        **_same_hint("shape dims nnz dtype", 'bundle["X"].shape'),
        **_same_hint("to_numpy to_scipy", 'bundle["X"].to_scipy()'),
    },
    "sparrow": _SPARROW,
    "sparrow.linalg": {
        **_same_hint("eigs eig_sparse", "sp.linalg.eigsh(G, k=1)"),
        **_same_hint("lu", "sp.linalg.splu(G)"),
        **_same_hint("PCA TruncatedSVD randomized_svd", "sp.linalg.pca(A, k=2)", "sp.linalg.svds(A, k=2)"),
        **_same_hint("dot", "A @ B.T"),
        **_same_hint("lstsq", "sp.linalg.lsqr(A, y)"),
        **_same_hint("LinearOperator", "sp.linalg.aslinearoperator(A)"),
    },
    "sparrow.graph": {
        **_same_hint("louvain louvain_communities leiden", "sp.graph.label_propagation(G)"),
        **_same_hint("shortest_path dijkstra single_source_shortest_path", "sp.graph.shortest_paths(G, 0)"),
        **_same_hint("bfs_edges breadth_first_order", "sp.graph.bfs(G, 0)"),
        **_same_hint("degree in_degree out_degree", "sp.graph.degrees(G)"),
        **_same_hint("subgraph", "sp.graph.induced_subgraph(G, [0, 1])"),
        **_same_hint("core_number k_core", "sp.graph.kcore(G)"),
        **_same_hint("jaccard adamic_adar_index", "sp.graph.adamic_adar(G, [[0, 1]])"),
        **_same_hint("node2vec walks", "sp.graph.random_walks(G, [0], length=3)"),
        **_same_hint("to_undirected", "sp.graph.symmetrize(G)"),
    },
    "sparrow.models": {
        **_same_hint("SGDClassifier LogisticRegressionCV SVC LinearSVC", "sp.models.LogisticRegression()"),
        **_same_hint("SGDRegressor Ridge Lasso", "sp.models.LinearRegression()"),
        **_same_hint("AlternatingLeastSquares ImplicitALS MatrixFactorization", "sp.models.ALS()"),
        **_same_hint("FM", "sp.models.FactorizationMachine()"),
        **_same_hint("open read", 'sp.models.load("m.model")'),
        **_same_hint("train_test_split", "sp.training.train_test_split(A)"),
        **_same_hint("PCA TruncatedSVD SVD NMF", "sp.linalg.pca(A, k=2)", "sp.linalg.svds(A, k=2)"),
    },
    "sparrow.optim": {**_same_hint("AdamW RMSprop", "sp.optim.Adam()"), **_same_hint("Adagrad", "sp.optim.AdaGrad()")},
    "sparrow.training": {
        **_same_hint("DataLoader", "sp.batches(A, y, 2)"),
        **_same_hint("StandardScaler normalize", 'A / sp.training.scales(A, "std")'),
        **_same_hint("TfidfTransformer tfidf", "A * sp.training.idf(A)"),
        **_same_hint("OneHotEncoder", 'sp.training.one_hot(df, ["user"])'),
    },
}
"""Hints by missing name, by class or module."""

_CALLS = {
    "sparrow.tensor": ("sp.asarray(M)", "sp.from_coords(coords, values)"),
}
"""Hints for modules that are called."""


@lru_cache(1024)
def _nearest_name(name: str, names: tuple[str, ...]) -> str | None:
    """Return the name most like a missing one; cached, for ``hasattr``."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, names, 1, 0.7)), None)


def missing_attribute(owner: str, name: str, table: str, names: Iterable[str]) -> AttributeError:
    """Return the error of a missing attribute, with the way out.

    Parameters
    ----------
    owner, name
        Description of the object, and the attribute.
    table
        Table of hints.
    names
        Names that exist, for the nearest one.
    """
    text = f"{owner} has no attribute {name!r}"
    hint = TABLES.get(table, {}).get(name)
    if hint is not None:
        text += f": use {', or '.join(hint)}"
    elif not name.startswith("_"):
        nearest = _nearest_name(name, tuple(names))
        text += "" if nearest is None else f": did you mean {nearest!r}?"
    return AttributeError(text, name=name)  # without obj=, so that Python appends no suggestion of its own


class HintedAttributes:
    """Mixin of classes whose missing attributes are answered with a hint.

    The table is that of the name of the class, or of its nearest base.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # a class that has this has every attribute, to a checker of types

        def __getattr__(self, name: str) -> Any:
            """Raise ``AttributeError``, with a hint for names of other libraries."""
            cls = type(self)
            if name.startswith("_") or hasattr(cls, name):  # an attribute whose property raised
                return object.__getattribute__(self, name)
            table = next((base.__name__ for base in cls.__mro__ if base.__name__ in TABLES), "")
            raise missing_attribute(f"{cls.__name__!r} object", name, table, _public_names(cls))


@lru_cache(64)
def _public_names(cls: type) -> tuple[str, ...]:
    return tuple(name for name in dir(cls) if not name.startswith("_"))


def hinted_getattr(module: str, load: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module, which answers missing names.

    Parameters
    ----------
    module
        Name of the module.
    load
        Returns what is loaded when it is first used; names of ``__all__``.
    """

    def getattribute(name: str) -> Any:
        here = sys.modules[module]
        if load is not None and (name.startswith("_") or name in here.__all__):
            return load(name)
        raise missing_attribute(f"module {module!r}", name, module, here.__all__)

    return getattribute


class HintedModule(ModuleType):
    """Type of a module that people take for a function."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Raise ``UnsupportedError``: a module is not called."""
        from sparrow.errors import UnsupportedError

        raise UnsupportedError(
            f"{self.__name__} is a module, not a function: use {', or '.join(_CALLS[self.__name__])}"
        )
