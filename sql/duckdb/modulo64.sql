-- Sums of integers as 64 bits hold them: every sum modulo 2^64, so that overflow gives what NumPy gives.
--
-- Reads   product (i, sums as HUGEINT ...)
-- Gives   i, the same columns as UBIGINT: the bits of an int64 or uint64
-- Used by engine="duckdb" for products of integers, over spmv.sql or spmm.sql.
SELECT i, CAST((COLUMNS(* EXCLUDE (i)) % 18446744073709551616 + 18446744073709551616) % 18446744073709551616 AS UBIGINT)
FROM product
