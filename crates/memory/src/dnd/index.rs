//! Exact search for the nearest keys: by brute force, or with R*-trees.

use super::{Entries, host};
use rstar::{AABB, PointDistance, RTree, RTreeObject};
use std::{
    fmt::Debug,
    ops::{Range, RangeInclusive},
    sync::OnceLock,
};

/// Widths of keys that an index is made for. In more dimensions a tree is hardly faster than brute force.
pub const INDEXED_WIDTHS: RangeInclusive<usize> = 2..=5;

/// The squared distance of a key to a query, as all searches compute it; infinite if a number is not finite.
fn square(query: &[f32], key: &[f32]) -> f32 {
    let square: f32 = key.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum();
    if square.is_nan() {
        f32::INFINITY
    } else {
        square
    }
}

/// The rows nearest to a query among those looked at; of equally near rows the older ones.
#[derive(Debug)]
pub struct Nearest {
    count: usize,
    /// Squared distances, all finite, and rows; in order.
    best: Vec<(f32, usize)>,
}

impl Nearest {
    /// Finds `count` rows.
    pub fn new(count: usize) -> Self {
        Self {
            count,
            best: Vec::with_capacity(count),
        }
    }

    /// No row that is farther than this can be taken.
    fn farthest(&self) -> f32 {
        match self.best.last() {
            Some((square, _)) if self.best.len() == self.count => *square,
            _ => f32::INFINITY,
        }
    }

    /// Whether a row at a finite distance was taken.
    fn take(&mut self, square: f32, row: usize) -> bool {
        let place = self.best.partition_point(|best| *best < (square, row));
        if place == self.count {
            return false;
        }
        self.best.truncate(self.count - 1);
        self.best.insert(place, (square, row));
        true
    }

    /// Looks at all `keys`, which are newer than the rows seen so far; `start` is the row of the first.
    pub fn scan(&mut self, query: &[f32], keys: &[f32], start: usize) {
        for (row, key) in keys.chunks(query.len()).enumerate() {
            let square = square(query, key);
            if square < self.farthest() {
                self.take(square, start + row);
            }
        }
    }

    /// The rows found, the nearest first, and the oldest of the others if fewer than `count` are at a finite distance.
    /// Then the search is empty again.
    ///
    /// `all` are the rows of the dictionary, at least `count`.
    pub fn finish(&mut self, all: Range<usize>) -> Vec<usize> {
        let mut rows: Vec<usize> = self.best.drain(..).map(|(_, row)| row).collect();
        let finite = rows.len();
        let others = all.filter(|row| !rows[..finite].contains(row));
        let others: Vec<usize> = others.take(self.count - finite).collect();
        rows.extend(others);
        rows
    }
}

/// Entries that do not change, with a tree of keys for each sequence. The trees are built at the first read.
#[derive(Debug)]
pub struct Part {
    pub entries: Entries,
    trees: OnceLock<Vec<Box<dyn Search>>>,
}

impl Part {
    pub fn new(entries: Entries) -> Self {
        Self {
            entries,
            trees: OnceLock::new(),
        }
    }

    /// Looks for the entries of a sequence that are near. `start` is the row of the first; rows before `oldest` were
    /// dropped.
    pub fn search(
        &self,
        sequence: usize,
        query: &[f32],
        [start, oldest]: [usize; 2],
        nearest: &mut Nearest,
    ) {
        let trees = self.trees.get_or_init(|| {
            let [_, filled, width] = self.entries.keys.dims();
            let keys = host(&self.entries.keys);
            keys.chunks(filled * width)
                .map(|keys| tree(width, keys))
                .collect()
        });
        // Otherwise all distances are infinite.
        if query.iter().all(|x| x.is_finite()) {
            trees[sequence].search(query, [start, oldest], nearest);
        }
    }
}

/// A search for the keys of one sequence that are nearest to a query.
trait Search: Debug + Send + Sync {
    fn search(&self, query: &[f32], rows: [usize; 2], nearest: &mut Nearest);
}

fn tree(width: usize, keys: &[f32]) -> Box<dyn Search> {
    match width {
        2 => Box::new(Tree::<2>::new(keys)),
        3 => Box::new(Tree::<3>::new(keys)),
        4 => Box::new(Tree::<4>::new(keys)),
        5 => Box::new(Tree::<5>::new(keys)),
        _ => unreachable!("parts are made for {INDEXED_WIDTHS:?} dimensions"),
    }
}

/// The different finite keys of a sequence.
///
/// Boxes and keys compute distances in the same arithmetic, and rounding keeps the order of numbers. So a box is never
/// farther than a key in it, and the tree yields keys by their rounded distances without an error.
#[derive(Debug)]
struct Tree<const N: usize> {
    keys: RTree<Key<N>>,
    /// Numbers of entries; those of the same key stand together, the oldest first.
    entries: Vec<usize>,
}

#[derive(Debug)]
struct Key<const N: usize> {
    place: [f32; N],
    /// Its entries, a range of [`Tree::entries`].
    entries: Range<usize>,
}

impl<const N: usize> RTreeObject for Key<N> {
    type Envelope = AABB<[f32; N]>;

    fn envelope(&self) -> Self::Envelope {
        AABB::from_point(self.place)
    }
}

impl<const N: usize> PointDistance for Key<N> {
    fn distance_2(&self, query: &[f32; N]) -> f32 {
        square(query, &self.place)
    }
}

impl<const N: usize> Tree<N> {
    fn new(keys: &[f32]) -> Self {
        let (places, _) = keys.as_chunks::<N>();
        let finite = |entry: &usize| places[*entry].iter().all(|x| x.is_finite());
        let mut entries: Vec<usize> = (0..places.len()).filter(finite).collect();
        entries.sort_by(|a, b| {
            let order = places[*a].partial_cmp(&places[*b]);
            order.expect("finite numbers have an order")
        });
        let mut start = 0;
        let same = entries.chunk_by(|a, b| places[*a] == places[*b]);
        let keys = same.map(|same| {
            let range = start..start + same.len();
            start = range.end;
            Key {
                place: places[same[0]],
                entries: range,
            }
        });
        Self {
            keys: RTree::bulk_load(keys.collect()),
            entries,
        }
    }
}

impl<const N: usize> Search for Tree<N> {
    fn search(&self, query: &[f32], [start, oldest]: [usize; 2], nearest: &mut Nearest) {
        let query = query.try_into().expect("queries are as wide as keys");
        for (key, square) in self.keys.nearest_neighbor_iter_with_distance_2(query) {
            if square > nearest.farthest() || square == f32::INFINITY {
                break;
            }
            let entries = &self.entries[key.entries.clone()];
            let dropped = entries.partition_point(|entry| start + entry < oldest);
            for entry in &entries[dropped..] {
                if !nearest.take(square, start + entry) {
                    break;
                }
            }
        }
    }
}
