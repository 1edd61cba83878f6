"""Counts of 10x Genomics, features x barcodes: a folder of files, or HDF5."""

from __future__ import annotations

import os
import re
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from sparrow.core.schema import check_dtype
from sparrow.errors import IngestError, InvalidValueError, NotFoundError
from sparrow.io.base.coo_writer import check_label_memory
from sparrow.io.base.registry import DType, Format, Option, Reader, shared
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.source import folder_path, open_sources, read_blocks
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.binary import hdf5
from sparrow.io.text.mtx import MatrixMarket
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["FORMATS", "Tenx", "find_matrix"]

_DIMS = ("feature", "barcode")
_MATRIX = re.compile(r"(.*)matrix\.mtx(?:\.(?:gz|zst|bz2|xz))?")
_PACKED = ("", ".gz", ".zst", ".bz2", ".xz")


@shared
@dataclass
class Tenx(Reader):
    r"""Store the counts of a 10x Genomics experiment, features x barcodes.

    Parameters
    ----------
    src
        Folder with ``matrix.mtx``, ``barcodes.tsv`` and ``features.tsv`` (``genes.tsv`` in older ones, ``peaks.bed`` of
        open chromatin, whose rows are labelled ``chr1:10-20``), each compressed or not, and all with a common prefix or
        none; or an HDF5 file, of the old or the new layout. HDF5 needs the extra ``hdf5``.
    %(dst)s
    features
        ``"id"`` or ``"name"`` of the features as labels; names may repeat.
    genome
        Genome to read from an old HDF5 file of several.
    prefix
        Prefix of the files of one of several samples in a folder, such as ``"GSM1234_"``.
    header
        Skip a first line of column names in ``features.tsv`` and ``barcodes.tsv``.
    dtype
        Type of the values; int64, or that of the HDF5 file, by default.
    %(storing)s

    Returns
    -------
    Tensor
        ``sp.open(dst)``: the stored matrix ``feature, barcode``.

    Raises
    ------
    IngestError
        If a file is damaged, names are missing, too many or repeated, or a value does not fit ``dtype``: for text with
        file, line and token.
    MissingDependencyError
        If h5py is not installed, for HDF5.
    NotFoundError
        If a file or folder is missing.
    %(exists)s
    TooLargeError
        If the names exceed their share of the memory limit.
    %(invalid)s

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> Path("tenx").mkdir()
    >>> for name, text in {
    ...     "matrix.mtx": "%%MatrixMarket matrix coordinate integer general\n2 1 1\n2 1 7\n",
    ...     "barcodes.tsv": "AAAC-1\n",
    ...     "genes.tsv": "ENSG1\tDSCAM\nENSG2\tAPP\n",
    ... }.items():
    ...     size = Path("tenx", name).write_text(text)
    >>> counts = sp.ingest.tenx("tenx", "counts.sparrow", features="name")
    >>> counts.sel(feature="APP", barcode="AAAC-1")
    np.int64(7)
    """

    _: KW_ONLY
    features: Annotated[Literal["id", "name"], Option("Labels of the features.")] = "id"
    genome: Annotated[str | None, Option("Genome to read from an old HDF5 file.")] = None
    prefix: Annotated[str | None, Option("Prefix of the files of one sample in a folder.")] = None
    header: Annotated[bool, Option("Skip a first line of column names.")] = False
    dtype: DType = None

    accepts_many: ClassVar[bool] = False
    examples: ClassVar[str] = "sparrow ingest tenx filtered_feature_bc_matrix counts.sparrow"

    def read(self) -> str:
        """Store the counts and return their folder."""
        if (folder := folder_path(self.src)) is not None:
            return self._folder(folder)
        with hdf5.open_file(self.src) as (name, file):
            group = _find_group(file, self.genome, name)
            shape = group["shape"][:].tolist()
            if len(shape) != 2:
                raise IngestError(f"the shape must have 2 sizes, got {shape}", name)
            matrix = hdf5.read_compressed(group, (int(shape[0]), int(shape[1])), False, name)
            if "features" in group:
                features = hdf5.get_group(group, "features", name, self.features)[self.features]
            else:
                features = group["genes" if self.features == "id" else "gene_names"]
            labels = {
                0: self._unique(hdf5.read_labels(features, name), matrix.shape[0], name),
                1: hdf5.check_unique_labels(
                    hdf5.read_labels(group["barcodes"], name), matrix.shape[1], "barcodes", "", name
                ),
            }
            return hdf5.store_matrix(
                self.dst,
                matrix,
                dims=_DIMS,
                labels=labels,
                dtype=None if self.dtype is None else check_dtype(self.dtype),
                duplicates="sum",
                overwrite=self.overwrite,
                profile=self.profile,
                operation="ingest tenx",
                name=name,
                report=self.report,
            )

    def _folder(self, folder: str) -> str:
        matrix = find_matrix(folder, self.prefix)
        if matrix is None:
            if (error := _ask(folder)) is not None:
                raise error
            what = "one matrix.mtx" if self.prefix is None else f"{self.prefix}matrix.mtx"
            raise NotFoundError(f"folder {folder!r} must hold {what}")
        found = _MATRIX.fullmatch(os.path.basename(matrix))
        assert found is not None
        beside = os.path.join(folder, found[1])
        features = _find_beside(beside, "features.tsv", "genes.tsv", "peaks.bed")
        barcodes = _find_beside(beside, "barcodes.tsv")
        column = None if "peaks.bed" in os.path.basename(features) else int(self.features == "name")
        self._names = {
            0: (features, _names(features, column)), 1: (barcodes, _names(barcodes, 0))
        }  # fmt: skip
        counts = _Counts(self, matrix)
        counts.report = self.report
        return counts.read()

    def labels_of(self, shape: tuple[int, ...]) -> dict[int, pa.Array]:
        """Return the names of features and barcodes, checked against the shape."""
        for (file, found), size in zip(self._names.values(), shape, strict=True):
            if len(found) == size + 1 and not self.header:
                raise IngestError(
                    f"expected {size} names, the size of the dimension, got {len(found)}: the first line, "
                    f"{found[0].as_py()!r}, may be a header: pass header=True to skip it",
                    file,
                    commands=[TypedSource.of(self.src).command("tenx", **{**self.options, "header": True})],
                )
        if self.header:
            self._names = {
                dim: (file, found.slice(len(found) - shape[dim] if len(found) == shape[dim] + 1 else 0))
                for dim, (file, found) in self._names.items()
            }
        (features, names), (barcodes, others) = self._names[0], self._names[1]
        return {
            0: self._unique(names, shape[0], features),
            1: hdf5.check_unique_labels(others, shape[1], "barcodes", "a barcode is one cell", barcodes),
        }

    def _unique(self, labels: pa.Array, size: int, file: str) -> pa.Array:
        way = "pass features='id'" if self.features == "name" else "a feature is one row"
        return hdf5.check_unique_labels(labels, size, "features", way, file)


class _Counts(MatrixMarket):
    """Matrix Market reader of the matrix in a folder."""

    format: ClassVar[str] = "tenx"

    def __init__(self, options: Tenx, matrix: str) -> None:
        super().__init__(
            matrix, options.dst, dtype=options.dtype, dims=_DIMS, overwrite=options.overwrite, profile=options.profile
        )
        self._options = options

    def labels(self, shape: tuple[int, ...]) -> dict[int, pa.Array]:
        """Return the names of features and barcodes."""
        return self._options.labels_of(shape)


def find_matrix(folder: str, prefix: str | None = None) -> str | None:
    """Return the only matrix in a folder, or that of a prefix, if there is one."""
    found = [name for name in get_filesystem(folder).names(folder) if _MATRIX.fullmatch(name)]
    if prefix is not None:
        found = [name for name in found if name.startswith(f"{prefix}matrix.mtx")]
    return os.path.join(folder, found[0]) if len(found) == 1 else None


def _ask(folder: str) -> IngestError | None:
    """Return the error about a folder whose matrices need a choice, if it is one."""
    files = get_filesystem(folder)
    names = files.names(folder)
    prefixes = sorted({found[1] for name in names if (found := _MATRIX.fullmatch(name)) is not None})
    if len(prefixes) > 1:
        ways = [TypedSource.of(folder).command("tenx", prefix=prefix) for prefix in prefixes]
        return IngestError("the folder holds several samples", folder, commands=ways)
    inside = [os.path.join(folder, name) for name in names]
    several = [path for path in inside if files.is_folder(path) and find_matrix(path) is not None]
    ways = [TypedSource.of(path).command("tenx") for path in several]
    return IngestError("the matrix is in a folder below", folder, commands=ways) if ways else None


def _find_beside(beginning: str, *names: str) -> str:
    for name in names:
        for packed in _PACKED:
            if get_filesystem(beginning).exists(beginning + name + packed):
                return beginning + name + packed
    raise NotFoundError(f"there is no file {beginning + names[0]!r}, compressed or not, with the labels of the matrix")


def _names(path: str, column: int | None) -> pa.Array:
    """Return a column of tab-separated lines, or chromosome ranges."""
    found: list[str] = []
    size = 0
    with closing(read_blocks(open_sources(path))) as text:
        for block in text:
            block.check_utf8()
            for number, line in enumerate(bytes(block.data).decode().split("\n")[:-1], block.first_line):
                cells = line.rstrip("\r").split("\t")
                if not line.strip() or (column is None and line.startswith("#")):
                    continue
                if len(cells) <= (2 if column is None else column):
                    problem = "a chromosome, begin and end" if column is None else "an id and a name"
                    raise IngestError(f"the line must have {problem}", path, number, line[:80])
                cell = "{}:{}-{}".format(*cells) if column is None else cells[column]
                if len(cell) > 1 and cell[0] == cell[-1] == '"':  # R quotes texts
                    cell = cell[1:-1].replace('""', '"')
                found.append(cell)
                size += len(cell)
            check_label_memory(len(found), size + 60 * len(found))
    return pa.array(found, pa.string())


def _find_group(file: Any, genome: str | None, name: str) -> Any:
    """Return the group of the matrix."""
    parts = ("data", "indices", "indptr", "shape", "barcodes")
    if "matrix" in file:
        if genome is not None:
            raise InvalidValueError(f"genome must be omitted, the file has one matrix of all genomes, got {genome!r}")
        return hdf5.get_group(file, "matrix", name, *parts)
    genomes = [key for key in file if hasattr(file[key], "keys") and "indptr" in file[key]]
    if genome is None and len(genomes) != 1:
        if not genomes:
            raise IngestError(
                f"this is not a file of 10x Genomics: it holds {', '.join(map(repr, file)) or 'nothing'}", name
            )
        raise IngestError(f"the file has several genomes: pass genome={genomes[0]!r}, or another of {genomes}", name)
    return hdf5.get_group(file, genome or genomes[0], name, *parts, "genes", "gene_names")


def _detect_folder(sample: Sample) -> str | None:
    if sample.folder is None:
        return None
    if find_matrix(sample.folder) is not None:
        return "the folder holds a matrix.mtx"
    if (error := _ask(sample.folder)) is not None:
        raise error
    return None


def _detect_hdf5(sample: Sample) -> str | None:
    file = sample.hdf5
    is_group = "matrix" in file and hasattr(file["matrix"], "keys")
    if is_group or any(hasattr(file[key], "keys") and "indptr" in file[key] for key in file):
        return "HDF5 with a matrix by columns, as 10x Genomics writes it"
    return None


FORMATS = (
    Format(
        "tenx",
        "Counts of 10x Genomics: folders and HDF5.",
        reader=Tenx,
        suffixes=(".h5",),
        detectors={Stage.PATH: _detect_folder, Stage.HDF5: _detect_hdf5},
    ),
)
