//! Tables in Parquet files, as pandas, polars and pyarrow write them: the same table as the CSV file beside them.

use mnemora_worlds::{
    Limits,
    series::{SeriesData, TableSettings},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/tables")
        .join(name)
}

fn opened(path: &Path) -> Result<SeriesData, String> {
    let data = SeriesData::open(path, &TableSettings::default(), Limits::default());
    data.map_err(|error| error.to_string())
}

#[test]
fn a_parquet_file_holds_what_its_csv_file_does() {
    let csv = opened(&file("days.csv")).unwrap();
    assert_eq!((csv.width(), csv.time.as_str()), (4, "date"));
    // The rows that were dropped are steps of which nothing was observed.
    assert_eq!(csv.series[0].clock.steps(), 150);
    for name in [
        "pandas-snappy.parquet",
        "pandas-gzip.parquet",
        "polars-zstd.parquet",
        "arrow-lz4.parquet",
    ] {
        let parquet = opened(&file(name)).unwrap();
        assert_eq!(parquet.columns, csv.columns, "{name}");
        assert_eq!(parquet.fingerprint(), csv.fingerprint(), "{name}");
    }
    // Times as the rows' index, which has no name, and is the last column.
    let indexed = opened(&file("pandas-index.parquet")).unwrap();
    assert_eq!(indexed.time, "time");
    assert_eq!(indexed.columns, csv.columns);
    assert_eq!(indexed.fingerprint(), csv.fingerprint());
}

#[test]
fn what_is_no_table_is_one_line() {
    let refused = opened(&file("lists.parquet")).unwrap_err();
    assert!(refused.contains("column y holds lists"), "{refused}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    for text in ["", "PAR1", "date,y\n2024-01-01,1\n"] {
        fs::write(&path, text).unwrap();
        let refused = opened(&path).unwrap_err();
        assert!(refused.contains("not a whole Parquet file"), "{refused}");
        assert_eq!(refused.lines().count(), 1, "{refused}");
    }
}

#[test]
fn damage_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    let mut refused = 0;
    for name in [
        "pandas-snappy.parquet",
        "polars-zstd.parquet",
        "arrow-lz4.parquet",
    ] {
        let bytes = fs::read(file(name)).unwrap();
        for place in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x55;
            fs::write(&path, &damaged).unwrap();
            refused += usize::from(opened(&path).is_err());
        }
        for length in (0..bytes.len()).step_by(61) {
            fs::write(&path, &bytes[..length]).unwrap();
            assert!(opened(&path).is_err(), "{name}, {length} bytes");
        }
    }
    assert!(refused > 100, "{refused}");
}
