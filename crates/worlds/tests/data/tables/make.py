"""Writes days.csv and the same table in Parquet files, as pandas and polars do: python make.py (pandas, pyarrow, polars)."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

draws = np.random.default_rng(1)
days = pd.date_range("2024-01-01", periods=150, freq="D")
wave = np.sin(np.arange(150) / 5)
table = pd.DataFrame(
    {
        "date": days,
        "level": np.round(3 * wave + draws.normal(size=150), 4),
        "visits": draws.poisson(np.exp(1 + wave)),
        "open": draws.random(150) < 0.7,
        "kind": pd.Categorical(np.where(wave + draws.normal(size=150) > 0, "high", "low")),
    }
)
table.loc[[20, 21, 70], "level"] = np.nan
table = table.drop(index=range(40, 43)).reset_index(drop=True)
plain = table.assign(open=table["open"].astype(int))
plain.to_csv("days.csv", index=False)
table.to_parquet("pandas-snappy.parquet")
table.to_parquet("pandas-gzip.parquet", compression="gzip")
table.set_index("date").rename_axis(None).to_parquet("pandas-index.parquet")
pl.from_pandas(table).write_parquet("polars-zstd.parquet")
days = table.assign(date=table["date"].dt.date)
days["level"] = days["level"].astype("float32")
pq.write_table(pa.Table.from_pandas(days, preserve_index=False), "arrow-lz4.parquet", compression="lz4", write_page_checksum=True)
pq.write_table(pa.table({"y": [[1.0], [2.0]]}), "lists.parquet")
