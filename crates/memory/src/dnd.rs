//! The differentiable neural dictionary (DND): what was seen, stored under where it was seen.
//!
//! Pritzel et al. 2017, section 3, as Fraccaro et al. 2018 (gtm-sm), section 3.1, use it: entries are sufficient
//! statistics, and nothing that is stored changes later. It is not a [`Memory`](crate::Memory): its query is the state
//! of the same step. [`Spatial`](crate::Spatial) is a memory that owns such a state and a dictionary.
//!
//! Up to 4,096 entries are searched by brute force. For more entries with keys of 2 to 5 dimensions, the index in
//! `index.rs` finds the same entries in the same order. It is made of trees that never change: the newest entries are
//! searched by brute force until there are 512 of them, then they become a tree, and trees of similar size are joined.
//! So a write costs the logarithm of the number of entries on average (the write that joins two large trees is slow, and
//! the read after it), a read asks about as many trees, and a clone of a dictionary shares them.

mod index;

use crate::{Bundle, TensorMapper};
use burn::tensor::{Int, Tensor, TensorData, activation};
use index::{INDEXED_WIDTHS, Nearest, Part};
use std::sync::Arc;

/// Dictionaries with more entries have an index.
const BRUTE_FORCE: usize = 4096;
/// Entries that wait for a tree, at most, if they are written one by one.
const WAITING: usize = 512;

/// Dictionaries of the sequences of a batch, one for each, all of the same length. A full dictionary drops its oldest
/// entry.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use mnemora_memory::Dnd;
///
/// let device = Device::default();
/// let mut dnd = Dnd::new(100);
/// for (x, what) in [(0.0_f32, 1.0_f32), (1.0, 2.0), (5.0, 3.0)] {
///     let key = Tensor::<2>::from_floats([[x, 0.0]], &device);
///     dnd = dnd.write(key, Tensor::from_floats([[what]], &device));
/// }
/// let query = Tensor::<3>::from_floats([[[0.9, 0.0]]], &device);
/// let near = dnd.nearest(query, 2).expect("the dictionary is not empty");
/// assert_eq!(near.positions, [1, 0]);
/// assert_eq!(near.values.into_data().try_to_vec::<f32>().unwrap(), [2.0, 1.0]);
/// ```
///
/// Cost: with keys of 2 to 5 dimensions a write and a read take time that grows with the logarithm of the number of
/// entries. Keys of other widths are always searched by brute force, and each write copies all entries: keep such
/// dictionaries small.
///
/// As a [`Bundle`] it is two tensors, all keys and all values, whatever its size. They are what a saved state holds; the
/// capacity comes from the model, and the index is built again at the next read.
#[derive(Clone, Debug)]
pub struct Dnd {
    /// Entries with an index, the oldest first.
    indexed: Vec<Arc<Part>>,
    /// How many of the first part's entries the dictionary has dropped.
    dropped: usize,
    /// The newest entries.
    recent: Option<Entries>,
    capacity: usize,
}

/// Entries in the order in which they were written.
#[derive(Clone, Debug)]
struct Entries {
    /// `[batch, count, key]`
    keys: Tensor<3>,
    /// `[batch, count, value]`
    values: Tensor<3>,
}

/// The entries nearest to each query, in rows `sequence * queries + query`; the nearest first.
#[derive(Clone, Debug)]
pub struct Neighbours {
    /// Their keys, `[rows, count, key]`.
    pub keys: Tensor<3>,
    /// Their values, `[rows, count, value]`.
    pub values: Tensor<3>,
    /// Squared distances of their keys to the query, `[rows, count]`.
    pub squares: Tensor<2>,
    /// Their places in the dictionary of their sequence, 0 for the oldest entry: `[rows, count]` row-major.
    pub positions: Vec<usize>,
}

/// `log w_k`, `[rows, count]`, with `w_k` proportional to `1 / (distance_k^2 + delta)`, from squared distances
/// `[rows, count]`; the weights of a row sum to one (gtm-sm, section 4.1).
pub fn log_weights(squares: Tensor<2>, delta: f64) -> Tensor<2> {
    activation::log_softmax(squares.add_scalar(delta).log().neg(), 1)
}

/// The rows of `keys`, `[rows, query.len()]`, that are nearest to `query`, the nearest first; of equally near ones the older.
/// A key that is not finite is farther than any other. The search is by brute force.
///
/// # Panics
/// If there are fewer than `count` rows.
pub fn nearest_rows(query: &[f32], keys: &[f32], count: usize) -> Vec<usize> {
    let rows = keys.len() / query.len();
    assert!(count <= rows, "{count} of {rows} rows");
    let mut nearest = Nearest::new(count);
    nearest.scan(query, keys, 0);
    nearest.finish(0..rows)
}

/// The numbers of a tensor.
fn host(tensor: &Tensor<3>) -> Vec<f32> {
    let data = tensor.clone().detach().into_data();
    data.try_into_vec().expect("places are f32")
}

impl Entries {
    fn len(&self) -> usize {
        self.keys.dims()[1]
    }

    /// A copy without the oldest `dropped`. A view would keep all of them, and each read of a view would copy it.
    fn without(&self, dropped: usize) -> Self {
        let rows = dropped as i64..self.len() as i64;
        let rows = Tensor::arange(rows, &self.keys.device());
        Self {
            keys: self.keys.clone().select(1, rows.clone()),
            values: self.values.clone().select(1, rows),
        }
    }

    /// Whether a dictionary of these and other entries, `filled` in all, has an index.
    fn deserve_index(&self, filled: usize) -> bool {
        filled > BRUTE_FORCE && INDEXED_WIDTHS.contains(&self.keys.dims()[2])
    }

    fn joined(all: Vec<Self>) -> Option<Self> {
        if all.len() < 2 {
            return all.into_iter().next();
        }
        let (keys, values) = all.into_iter().map(|part| (part.keys, part.values)).unzip();
        Some(Self {
            keys: Tensor::cat(keys, 1),
            values: Tensor::cat(values, 1),
        })
    }

    /// Single entries of the flattened dictionaries, as one sequence.
    fn select(&self, flat: Vec<i64>) -> Self {
        let count = flat.len();
        let flat = Tensor::<1, Int>::from_data(TensorData::new(flat, [count]), &self.keys.device());
        let pick = |all: &Tensor<3>| {
            let [batch, filled, width] = all.dims();
            let rows = all.clone().reshape([1, batch * filled, width]);
            rows.select(1, flat.clone())
        };
        Self {
            keys: pick(&self.keys),
            values: pick(&self.values),
        }
    }
}

impl Dnd {
    /// Empty dictionaries of at most `capacity` entries.
    ///
    /// # Panics
    /// If `capacity` is 0.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a dictionary must hold at least one entry");
        Self {
            indexed: Vec::new(),
            dropped: 0,
            recent: None,
            capacity,
        }
    }

    /// The most entries that each dictionary holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Entries of each dictionary.
    pub fn len(&self) -> usize {
        self.stored().map(Entries::len).sum::<usize>() - self.dropped
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All keys, `[batch, len, key]`, the oldest first; `None` if nothing is stored. With an index they are put together
    /// from several tensors.
    pub fn keys(&self) -> Option<Tensor<3>> {
        self.all().map(|all| all.keys)
    }

    /// All values, `[batch, len, value]`, the oldest first; `None` if nothing is stored. With an index they are put
    /// together from several tensors.
    pub fn values(&self) -> Option<Tensor<3>> {
        self.all().map(|all| all.values)
    }

    /// Entries in the order of their age; those that were dropped are still among the first.
    fn stored(&self) -> impl Iterator<Item = &Entries> {
        let indexed = self.indexed.iter().map(|part| &part.entries);
        indexed.chain(&self.recent)
    }

    fn all(&self) -> Option<Entries> {
        let all = Entries::joined(self.stored().cloned().collect())?;
        Some(match self.dropped {
            0 => all,
            dropped => all.without(dropped),
        })
    }

    /// Stores one entry for each sequence: `key`, `[batch, key]`, and `value`, `[batch, value]`.
    ///
    /// # Panics
    /// As [`write_all`](Self::write_all).
    pub fn write(self, key: Tensor<2>, value: Tensor<2>) -> Self {
        self.write_all(key.unsqueeze_dim(1), value.unsqueeze_dim(1))
    }

    /// Stores several entries for each sequence, in order: `keys`, `[batch, count, key]`, and `values`,
    /// `[batch, count, value]`.
    ///
    /// # Panics
    /// If batch, count or a width differs from what is stored.
    pub fn write_all(mut self, keys: Tensor<3>, values: Tensor<3>) -> Self {
        assert_eq!(keys.dims()[1], values.dims()[1], "a value for each key");
        if keys.dims()[1] == 0 {
            return self;
        }
        if let Some(stored) = self.stored().next() {
            let sizes = |keys: &Tensor<3>, values: &Tensor<3>| {
                let ([batch, _, key], [rows, _, value]) = (keys.dims(), values.dims());
                [batch, key, rows, value]
            };
            assert_eq!(
                sizes(&keys, &values),
                sizes(&stored.keys, &stored.values),
                "batch and widths of what is stored"
            );
        }
        let new = Entries { keys, values };
        self.recent = Entries::joined(self.recent.take().into_iter().chain([new]).collect());
        self.drop_oldest();
        self.index_recent();
        self
    }

    /// Drops the oldest entries that are more than the capacity.
    fn drop_oldest(&mut self) {
        self.dropped += self.len().saturating_sub(self.capacity);
        while let Some(oldest) = self.indexed.first()
            && oldest.entries.len() <= self.dropped
        {
            self.dropped -= oldest.entries.len();
            self.indexed.remove(0);
        }
        match self.indexed.first_mut() {
            None if self.dropped > 0 => {
                let dropped = std::mem::take(&mut self.dropped);
                self.recent = self.recent.as_ref().map(|recent| recent.without(dropped));
            }
            None => {}
            // Half of a tree is of no use.
            Some(oldest) if oldest.entries.len() <= 2 * self.dropped => {
                let left = oldest.entries.without(std::mem::take(&mut self.dropped));
                *oldest = Arc::new(Part::new(left));
            }
            Some(_) => {}
        }
    }

    /// Gives the newest entries a tree if there are enough of them and the dictionary is large.
    fn index_recent(&mut self) {
        let filled = self.len();
        let ready = |recent: &mut Entries| recent.len() >= WAITING && recent.deserve_index(filled);
        let Some(recent) = self.recent.take_if(ready) else {
            return;
        };
        self.indexed.push(Arc::new(Part::new(recent.without(0))));
        while let [.., older, newer] = &self.indexed[..]
            && older.entries.len() < 2 * newer.entries.len()
        {
            let parts = vec![older.entries.clone(), newer.entries.clone()];
            let mut joined = Entries::joined(parts).expect("there are two parts");
            self.indexed.truncate(self.indexed.len() - 2);
            if self.indexed.is_empty() && self.dropped > 0 {
                joined = joined.without(std::mem::take(&mut self.dropped));
            }
            self.indexed.push(Arc::new(Part::new(joined)));
        }
    }

    /// The `count` entries (all, if there are fewer) whose keys are nearest to each query, by Euclidean distance; of
    /// equally near ones the older first. A key that is not finite, or whose squared distance overflows, is farther than
    /// any other. `None` if nothing is stored.
    ///
    /// The search is exact. Gradients flow to queries, keys and values through the distances and the values found, not
    /// through the choice of entries.
    ///
    /// # Shapes
    /// - `queries`: `[batch, queries, key]`
    ///
    /// # Panics
    /// If batch or width differ from those of the keys, or `count` is 0.
    pub fn nearest(&self, queries: Tensor<3>, count: usize) -> Option<Neighbours> {
        let [batch, _, width] = self.stored().next()?.keys.dims();
        let [rows, each, query_width] = queries.dims();
        assert_eq!([rows, query_width], [batch, width], "queries of the keys");
        assert!(count > 0, "at least one neighbour");
        if self.is_empty() {
            return None;
        }
        let count = count.min(self.len());
        let found = self.rows_near(&queries, count);
        let near = self.entries_at(&found, each * count);
        let split = |all: Tensor<3>| {
            let width = all.dims()[2];
            all.reshape([batch * each, count, width])
        };
        let keys = split(near.keys);
        let apart = keys.clone() - queries.reshape([batch * each, 1, width]);
        Some(Neighbours {
            squares: apart.square().sum_dim(2).squeeze_dim(2),
            keys,
            values: split(near.values),
            positions: found.into_iter().map(|row| row - self.dropped).collect(),
        })
    }

    /// Rows of [`stored`](Self::stored) entries near each query, `[batch, queries, count]` row-major.
    fn rows_near(&self, queries: &Tensor<3>, count: usize) -> Vec<usize> {
        let [batch, each, width] = queries.dims();
        let all = self.dropped..self.dropped + self.len();
        let recent = self.recent.as_ref().map(|recent| host(&recent.keys));
        let recent = recent.unwrap_or_default();
        let recent_numbers = width * self.recent.as_ref().map_or(0, Entries::len);
        let mut found = Vec::with_capacity(batch * each * count);
        let mut nearest = Nearest::new(count);
        for (row, query) in host(queries).chunks(width).enumerate() {
            let sequence = row / each;
            let mut start = 0;
            for part in &self.indexed {
                part.search(sequence, query, [start, self.dropped], &mut nearest);
                start += part.entries.len();
            }
            let keys = &recent[sequence * recent_numbers..][..recent_numbers];
            nearest.scan(query, keys, start);
            found.extend(nearest.finish(all.clone()));
        }
        found
    }

    /// The entries at `rows` of [`stored`](Self::stored) entries, of which each sequence has `per_sequence`, as one
    /// sequence.
    fn entries_at(&self, rows: &[usize], per_sequence: usize) -> Entries {
        let mut parts = Vec::new();
        // Where each row is in the joined parts.
        let mut order = vec![0; rows.len()];
        let (mut start, mut taken) = (0, 0);
        for part in self.stored() {
            let filled = part.len();
            let mut flat = Vec::new();
            for (place, row) in rows.iter().enumerate() {
                if (start..start + filled).contains(row) {
                    order[place] = taken;
                    taken += 1;
                    flat.push((place / per_sequence * filled + row - start) as i64);
                }
            }
            start += filled;
            if !flat.is_empty() {
                parts.push(part.select(flat));
            }
        }
        let several = parts.len() > 1;
        let joined = Entries::joined(parts).expect("a query finds at least one entry");
        if several {
            joined.select(order)
        } else {
            joined
        }
    }
}

impl Bundle for Dnd {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        let Some(all) = self.all() else {
            return self;
        };
        let mapped = Entries {
            keys: mapper.float(all.keys),
            values: mapper.float(all.values),
        };
        let ([batch, keys, _], [rows, values, _]) = (mapped.keys.dims(), mapped.values.dims());
        if [batch, keys] != [rows, values] || keys > self.capacity {
            mapper.refuse(&format!(
                "a dictionary of at most {} entries cannot have {keys} keys and {values} values",
                self.capacity
            ));
            return self;
        }
        let mut dnd = Self::new(self.capacity);
        if mapped.deserve_index(keys) {
            dnd.indexed.push(Arc::new(Part::new(mapped)));
        } else {
            dnd.recent = Some(mapped);
        }
        dnd
    }
}
