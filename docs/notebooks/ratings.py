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
# # Ratings: from CSV to recommendations
#
# Film ratings exported from a database, one per line, become a tensor to slice by name, query in SQL and fit a model to.
# The data is simulated: users with four tastes, films of four genres.

# %%
import numpy as np
import polars as pl

import sparrow as sp

rng = np.random.default_rng(7)
kinds = ["western", "musical", "horror", "space opera"]
titles = [f"{kind} {number:02}" for kind in kinds for number in range(1, 41)]

users, films = 600, len(titles)
taste = rng.integers(0, len(kinds), users)
known = np.exp(-(np.arange(films) % 40) / 12)  # of each kind some are seen by many, most by few
chance = known * np.where(taste[:, None] == np.arange(films) // 40, 0.9, 0.12)
seen_by, seen = np.nonzero(rng.random((users, films)) < chance)
liked = taste[seen_by] == seen // 40
stars = np.clip(np.round(rng.normal(np.where(liked, 4.2, 2.6), 0.8) * 2) / 2, 0.5, 5)

ratings_csv = pl.DataFrame({"user": [f"u{k:03}" for k in seen_by], "film": [titles[k] for k in seen], "stars": stars})
ratings_csv.write_csv("ratings.csv")
ratings_csv.head(3)

# %% [markdown]
# ## Ingest
#
# Strings become labels of their dimension. A second run of this cell opens the stored tensor.

# %%
ratings = sp.ingest.columns("ratings.csv", "ratings.sparrow", coords=["user", "film"], value="stars", if_exists="open")
ratings

# %%
ratings.spy(bins=100)

# %% [markdown]
# Films are sorted by title, so each genre is a band. One user's ratings are a row, selected by label:

# %%
ratings.sel(user="u005").topk(5)

# %% [markdown]
# ## SQL
#
# In SQL a labelled dimension is a column of labels.

# %%
sp.sql("""
    select film, count(*) as ratings, round(avg(value), 2) as stars
    from ratings group by film having count(*) >= 20 order by stars desc, film limit 5
""")

# %% [markdown]
# Absent elements are not ratings of 0: `where="stored"` averages over stored ratings.

# %%
means = ratings.mean(axis="user", where="stored")
means.sel(film=["horror 01", "musical 01"]).to_numpy().round(2)

# %% [markdown]
# ## A model
#
# Users chose among 160 films, so an absent rating carries information and gets full weight (`unobserved_weight=1`; see
# docs/choosing-als.md). Some users are held out; `evaluate` prints the popularity baseline beside the model.

# %%
parts = sp.models.evaluation.split(ratings, seed=0)
model = sp.models.ALS(factors=8, unobserved_weight=1, epochs=8).fit(parts.train)
sp.models.evaluation.evaluate(model, parts.test, recall=[10], ndcg=[20])

# %%
model = sp.models.ALS(factors=8, unobserved_weight=1, epochs=8).fit(ratings)
best, scores = model.recommend(["u005", "u006"], k=5)
pl.DataFrame({"u005": best[0].tolist(), "u006": best[1].tolist()})

# %%
model.similar(["space opera 01"], k=4)[0][0].tolist()

# %% [markdown]
# ## New users
#
# Ratings of a new user are appended by name, in one commit. The model folds the user in without training again.

# %%
ratings.append(pl.DataFrame({"film": ["western 01", "western 02"], "user": ["new", "new"], "value": [5.0, 4.5]}))
history = ratings.sel(user=["new"])
[commit["operation"] for commit in ratings.history()], model.recommend(history, k=3, labels=True)[0][0].tolist()
