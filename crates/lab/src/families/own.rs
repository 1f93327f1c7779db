//! The table of settings that a family has for itself.

use crate::Experiment;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use std::{marker::PhantomData, sync::LazyLock};
use toml::Table;

/// The table `name` of an experiment, with settings `T`.
pub(crate) struct Own<T> {
    name: &'static str,
    /// The defaults; kept, because they are asked for with each key of an experiment.
    table: LazyLock<Option<Table>>,
    settings: PhantomData<fn() -> T>,
}

impl<T: Default + Serialize + DeserializeOwned + JsonSchema> Own<T> {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            table: LazyLock::new(|| Table::try_from(T::default()).ok()),
            settings: PhantomData,
        }
    }

    /// See [`Family::own_settings`](crate::Family::own_settings).
    pub(crate) fn table(&self) -> Option<(&'static str, Table)> {
        Some((self.name, self.table.clone()?))
    }

    /// See [`Family::own_schema`](crate::Family::own_schema).
    pub(crate) fn schema(&self) -> serde_json::Value {
        schemars::schema_for!(T).to_value()
    }

    /// The settings of an experiment of the family.
    pub(crate) fn of(&self, experiment: &Experiment) -> T {
        experiment.own_settings().unwrap_or_default()
    }
}
