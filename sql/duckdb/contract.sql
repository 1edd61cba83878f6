-- Sums of products of entries that agree along common letters, as einsum means them, under any semiring that SQL has
-- an aggregate for: one join, grouped by the letters of the result. A template, in which these are put in:
--
--   $columns    the letters of the result and the value of a group: sum(a.value * b.value), min(a.value + b.value),
--               any_value(1), ...
--   $operands   the relations, joined where letters are common
--   $mask       nothing, or SEMI JOIN what has the cells that are wanted, or ANTI JOIN what has those that are not:
--               either only drops products that the join has made
--   $groups     GROUP BY the letters of the result, HAVING a value that is no fill
--
-- Used by engine="duckdb" for products of tensors, and shown by einsum_sql.
SELECT $columns
FROM $operands$mask
$groups
