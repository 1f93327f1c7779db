//! Measures as JSON: dotted keys are nested objects.

use super::{Measures, Value};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};
use std::fmt;

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(value) => serializer.serialize_f64(*value),
            Self::Single(value) => serializer.serialize_f32(*value),
            Self::Count(value) => serializer.serialize_u64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Flag(value) => serializer.serialize_bool(*value),
            Self::Series(values) => values.serialize(serializer),
            Self::Records(rows) => rows.serialize(serializer),
        }
    }
}

/// Keys that begin alike, and follow each other, are one object.
struct Entries<'a>(Vec<(&'a str, &'a Value)>);

impl<'a> Serialize for Entries<'a> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut rest = self.0.as_slice();
        while let Some((key, value)) = rest.first() {
            let Some((object, _)) = key.split_once('.') else {
                map.serialize_entry(key, value)?;
                rest = &rest[1..];
                continue;
            };
            let inner = |key: &'a str| key.strip_prefix(object)?.strip_prefix('.');
            let within: Vec<_> = rest
                .iter()
                .map_while(|(key, value)| Some((inner(key)?, *value)))
                .collect();
            rest = &rest[within.len()..];
            map.serialize_entry(object, &Entries(within))?;
        }
        map.end()
    }
}

impl Serialize for Measures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Entries(self.iter().collect()).serialize(serializer)
    }
}

/// Any JSON, objects in their order.
enum Json {
    /// A number that is not finite is written so.
    Null,
    Value(Value),
    List(Vec<Json>),
    Object(Measures),
}

struct AnyJson;

impl<'de> Visitor<'de> for AnyJson {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a measured value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Value(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Value(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Value((value as f64).into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Value(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Value(value.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut measures = Measures::new();
        while let Some((key, value)) = object.next_entry::<String, Json>()? {
            insert(&mut measures, key, value)?;
        }
        Ok(Json::Object(measures))
    }
}

/// Adds the value of a key. A missing number adds nothing.
fn insert<E: serde::de::Error>(measures: &mut Measures, key: String, value: Json) -> Result<(), E> {
    let mixed = |key: &str| E::custom(format!("'{key}' is a list of values of different kinds"));
    match value {
        Json::Null => {}
        Json::Value(value) => measures.add(key, value),
        Json::Object(inner) => measures.append(&format!("{key}."), inner),
        Json::List(values) => {
            if values.iter().any(|value| matches!(value, Json::Object(_))) {
                let rows = values.into_iter().map(|value| match value {
                    Json::Object(row) => Some(row),
                    _ => None,
                });
                let rows: Option<Vec<Measures>> = rows.collect();
                measures.add(key.clone(), rows.ok_or_else(|| mixed(&key))?);
                return Ok(());
            }
            let mut numbers = Vec::with_capacity(values.len());
            for value in values {
                numbers.push(match value {
                    Json::Null => None,
                    Json::Value(value) => Some(value.number().ok_or_else(|| mixed(&key))?),
                    Json::List(_) | Json::Object(_) => return Err(mixed(&key)),
                });
            }
            measures.add(key, numbers);
        }
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyJson)
    }
}

impl<'de> Deserialize<'de> for Measures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Json::deserialize(deserializer)? {
            Json::Object(measures) => Ok(measures),
            _ => Err(serde::de::Error::custom(
                "expected an object of measured values",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::Row;

    #[test]
    fn nested_keys_are_objects_and_come_back() {
        let text = concat!(
            r#"{"step":4,"sequences":8,"bound":-12.5,"by_n":[0.5,null,1.0],"recordings":{"part":"test","#,
            r#""steps":30,"free_energy":1.25},"text":{"placeholders":true,"rows":[{"count":"< 1k","words":2},"#,
            r#"{"count":"more","words":3}]},"last":0.1}"#
        );
        let row: Row = serde_json::from_str(text).unwrap();
        assert_eq!(row.step, 4);
        assert_eq!(row.measures.text("recordings.part"), Some("test"));
        assert_eq!(row.measures.series("by_n"), [Some(0.5), None, Some(1.0)]);
        assert_eq!(row.measures.records("text.rows")[1].count("words"), Some(3));
        assert_eq!(serde_json::to_string(&row).unwrap(), text);
    }

    /// A number of a batch is written in single precision. A number that is not finite is written as `null` and read as
    /// none.
    #[test]
    fn numbers_are_written_as_they_were_computed() {
        let row = Row {
            step: 1,
            measures: Measures::new()
                .with("kl", 0.1_f32)
                .with("rate", 1e-3)
                .with("x", f64::NAN),
        };
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(text, r#"{"step":1,"kl":0.1,"rate":0.001,"x":null}"#);
        let back: Row = serde_json::from_str(&text).unwrap();
        assert_eq!(back.measures.number("x"), None);
        assert!(serde_json::from_str::<Row>(r#"{"step":1,"x":[1,{}]}"#).is_err());
        assert!(serde_json::from_str::<Row>(r#"{"kl":1}"#).is_err());
    }
}
