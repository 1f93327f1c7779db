"""Writes the tables of results/own.md from data sets that come with the Python packages statsmodels and pmdarima.

    pip install statsmodels pmdarima && python results/own/make_tables.py

Nothing is cleaned, scaled or left out, but lines without a value at the beginning and at the end of a country's fertility, and countries with fewer than 40 years.
"""

import csv
import datetime
from pathlib import Path

from pmdarima.datasets import load_taylor
from statsmodels.datasets import co2, fertility, macrodata

HERE = Path(__file__).resolve().parent


def write(name: str, header: list[str], rows: list[list[object]]) -> None:
    with open(HERE / f"{name}.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    print(f"{name}.csv: {len(rows)} rows")


def text(value: float) -> str:
    return "" if value != value else f"{value:g}" if abs(value) < 1e6 else f"{value:.1f}"


def main() -> None:
    weekly = co2.load_pandas().data["co2"]
    write("co2", ["date", "co2"], [[date.date().isoformat(), text(value)] for date, value in weekly.items()])

    quarters = macrodata.load_pandas().data
    names = [name for name in quarters.columns if name not in ("year", "quarter")]
    dates = [datetime.date(int(year), 3 * int(quarter) - 2, 1).isoformat() for year, quarter in zip(quarters["year"], quarters["quarter"])]
    write("macro", ["date", *names], [[date, *(text(value) for value in row)] for date, row in zip(dates, quarters[names].to_numpy())])

    start = datetime.datetime(2000, 6, 5)
    demand = load_taylor()
    write("electricity", ["time", "demand"], [[start + datetime.timedelta(minutes=30 * t), text(float(value))] for t, value in enumerate(demand)])

    table = fertility.load_pandas().data
    years = [name for name in table.columns if name.isdigit()]
    rows = []
    for _, country in table.iterrows():
        values = [float(country[year]) for year in years]
        known = [t for t, value in enumerate(values) if value == value]
        if len(known) < 40:
            continue
        rows += [[country["Country Name"], f"{years[t]}-01-01", text(values[t])] for t in range(known[0], known[-1] + 1)]
    write("fertility", ["series", "date", "births"], rows)


main()
