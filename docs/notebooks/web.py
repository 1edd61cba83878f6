# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A web graph larger than the memory limit
#
# cnr-2000, by the Laboratory for Web Algorithmics, ships with sparrow: 3.2 million links between 325,557 pages. As
# coordinates and values in memory they take 50 MB; the memory limit here is 40 MB.

# %%
import numpy as np

import sparrow as sp

sp.config(memory_limit="40MB")
sp.config()

# %%
web = sp.ingest.edges(sp.datasets.path("cnr-2000"), "web.sparrow", if_exists="open")
web

# %%
web.spy()

# %% [markdown]
# Most links are near the diagonal, because pages of one site have neighboring ids.
#
# ## Lazy views
#
# Indexing creates a view and reads nothing. `explain` shows what it will read.

# %%
web[200_000:200_100].explain()

# %% [markdown]
# The dense array would take 848 GB, which is refused before anything is read.

# %%
try:
    web.to_numpy()
except sp.errors.TooLargeError as error:
    print(error)

# %% [markdown]
# ## Products
#
# Products stream the rows of the files, whatever the limit. PageRank takes twenty products.

# %%
out = web.count(axis="dst").to_numpy()
ends = np.flatnonzero(out == 0)
rank = np.full(len(out), 1 / len(out))
for _ in range(20):
    share = np.divide(rank, out, out=np.zeros_like(rank), where=out > 0)
    rank = 0.85 * (web.T @ share + rank[ends].sum() / len(rank)) + 0.15 / len(rank)
ranks = sp.asarray(rank, dims=["page"])
ranks.topk(5)

# %% [markdown]
# ## SQL
#
# The tensor is a table, and so is the rank, as a tensor.

# %%
sp.sql("""
    select dst as page, count(*) as links, any_value(r.value) as rank
    from web join ranks r on dst = page where src <> dst
    group by dst order by rank desc limit 5
""")

# %% [markdown]
# Mutual links: the element-wise product of the graph and its transpose.

# %%
mutual = web * web.T
returned = mutual.nnz
returned, round(returned / web.nnz, 3)
