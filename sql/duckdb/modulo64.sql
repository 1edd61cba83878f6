-- Sums of integers modulo 2^64, so that they overflow as in NumPy.
--
-- Reads     product (i, sums as HUGEINT ...)
-- Returns   i, the same columns as UBIGINT: the bits of an int64 or uint64
-- Used by engine="duckdb" for products of integers, over spmv.sql or spmm.sql.
SELECT i, CAST((COLUMNS(* EXCLUDE (i)) % 18446744073709551616 + 18446744073709551616) % 18446744073709551616 AS UBIGINT)
FROM product
