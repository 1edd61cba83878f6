-- Table macros for the Parquet files of stored matrices, in any DuckDB shell, without sparrow:
--
--     duckdb -init macros.sql
--     D create view web as from read_parquet(['web.sparrow/3f1c-a0.parquet', 'web.sparrow/9b77-c2.parquet']);
--     D from degree('web') order by degree desc limit 5;
--     D from spmv('web', 'x');
--     D from slice('web', i_from := 100, i_to := 200);
--
--   spmv(a, x)        i, value          sum over j of a[i, j] * x[j]
--   spmm(a, x)        i, v0, v1, ...    the same for each column of x after the first, under its name
--   spgemm(a, b)      i, j, value       sum over k of a[i, k] * b[k, j], where it is not 0
--   min_plus(a, b)    i, j, value       the least of a[i, k] + b[k, j]: the shortest way of two steps
--   triangles(a)      triangles         sets of three of which each two have an entry above the diagonal: of an
--                                       undirected graph, whether its edges stand in both directions or in one, i < j
--   degree(a, dim)    i, degree         entries at each index of dimension dim: 0 (the default) rows, 1 columns
--   slice(a, i_from, i_to, j_from, j_to)
--                     i, j, value       entries with i_from <= i < i_to and j_from <= j < j_to, where they stand in a;
--                                       what is not given does not bound
--
-- a, b a matrix: its columns are taken as row, column and value, whatever their names, each cell once. DuckDB multiplies
--      no booleans, and small integers in their type: a view of "i, j, value::BIGINT as value" of such is multiplied. NaN
--      is larger than all numbers to it, so that min_plus passes over it
-- x    a dense operand: its first column counts 0, 1, 2, ..., its others are values
-- Both are names in quotes of tables and views, of Parquet files, or lists of either. i that hold no entry are left out:
-- they are 0. Bounds skip row groups, since files are sorted.
--
-- Which files: a folder keeps files of older versions until they are vacuumed, and 'web.sparrow/*.parquet' reads them
-- too, so that cells come twice after an edit. The files of the current version are what `sparrow info web.sparrow --json`
-- lists and A.files() gives; with DuckDB's delta extension, delta_scan('web.sparrow') reads just them.
--
-- Used by people; sparrow itself runs the other texts of this folder.

CREATE OR REPLACE MACRO spmv(a, x) AS TABLE
SELECT a.i AS i, sum(a.value * x.value) AS value
FROM query_table(a) AS a(i, j, value)
JOIN query_table(x) AS x(j, value) ON a.j = x.j
GROUP BY a.i;

CREATE OR REPLACE MACRO spmm(a, x) AS TABLE
SELECT a.i AS i, sum(a.value * COLUMNS(x.* EXCLUDE (j)))
FROM query_table(a) AS a(i, j, value)
JOIN query_table(x) AS x(j) ON a.j = x.j
GROUP BY a.i;

CREATE OR REPLACE MACRO spgemm(a, b) AS TABLE
SELECT a.i AS i, b.j AS j, sum(a.value * b.value) AS value
FROM query_table(a) AS a(i, k, value)
JOIN query_table(b) AS b(k, j, value) ON a.k = b.k
GROUP BY a.i, b.j
HAVING sum(a.value * b.value) <> 0;

CREATE OR REPLACE MACRO min_plus(a, b) AS TABLE
SELECT a.i AS i, b.j AS j, min(a.value + b.value) AS value
FROM query_table(a) AS a(i, k, value)
JOIN query_table(b) AS b(k, j, value) ON a.k = b.k
GROUP BY a.i, b.j;

CREATE OR REPLACE MACRO triangles(a) AS TABLE
SELECT count(*) AS triangles
FROM query_table(a) AS a(i, j, value)
JOIN query_table(a) AS b(i, j, value) ON a.j = b.i
SEMI JOIN query_table(a) AS c(i, j, value) ON c.i = a.i AND c.j = b.j
WHERE a.i < a.j AND b.i < b.j;

CREATE OR REPLACE MACRO degree(a, dim := 0) AS TABLE
SELECT CASE WHEN dim = 0 THEN a.i ELSE a.j END AS i, count(*) AS degree
FROM query_table(a) AS a(i, j, value)
GROUP BY 1;

CREATE OR REPLACE MACRO slice(a, i_from := 0, i_to := 9223372036854775807, j_from := 0, j_to := 9223372036854775807) AS TABLE
SELECT a.i AS i, a.j AS j, a.value AS value
FROM query_table(a) AS a(i, j, value)
WHERE a.i >= i_from AND a.i < i_to AND a.j >= j_from AND a.j < j_to;
