-- Contraction of two relations over a semiring with an SQL aggregate: one join, grouped by the output indices.
-- A template with these parameters:
--
--   $columns    the output indices and the aggregate: sum(a.value * b.value), min(a.value + b.value), any_value(1), ...
--   $operands   the relations, joined on common indices
--   $mask       empty, SEMI JOIN with the mask, or ANTI JOIN with its complement; both drop products after the join
--   $groups     GROUP BY the output indices, HAVING a value that differs from the fill
--
-- Used by engine="duckdb" for products of tensors, and by einsum_sql.
SELECT $columns
FROM $operands$mask
$groups
