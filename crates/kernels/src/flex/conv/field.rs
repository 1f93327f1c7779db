//! Memory layout of an image for correlation.

/// Elements after the last position that a vector may touch; at least two vectors on any machine.
pub(crate) const SLACK: usize = 64;

/// Memory layout of an image for correlation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Field {
    /// Channels of the image.
    pub(crate) channels: usize,
    /// Rows of a phase, padding included.
    pub(crate) rows: usize,
    /// Columns of a phase, padding included.
    pub(crate) columns: usize,
    /// The stride `s`; there are `s * s` phases.
    pub(crate) stride: usize,
    /// Padding above and left of the image, before it is split into phases.
    pub(crate) padding: [usize; 2],
}

impl Field {
    /// Elements of a channel.
    pub(crate) fn channel(&self) -> usize {
        self.stride * self.stride * self.rows * self.columns
    }

    /// Elements of the whole field, with slack.
    pub(crate) fn size(&self) -> usize {
        self.channels * self.channel() + SLACK
    }

    /// Offset within a channel of the pixel `(row, column)` of the padded image.
    pub(crate) fn offset(&self, row: usize, column: usize) -> usize {
        let s = self.stride;
        let phase = row % s * s + column % s;
        (phase * self.rows + row / s) * self.columns + column / s
    }

    /// Copies an image `[channels, height, width]` into a field whose padding is already zero. Rows and columns
    /// beyond the field are left out, because no tap reads them.
    #[inline(always)]
    pub(crate) fn fill(&self, image: &[f32], [height, width]: [usize; 2], field: &mut [f32]) {
        let s = self.stride;
        // Where the pixels of a row that are `s` apart go: first pixel, place, count.
        let runs: Vec<[usize; 3]> = (0..height)
            .filter(|row| (row + self.padding[0]) / s < self.rows)
            .flat_map(|row| (0..s.min(width)).map(move |first| (row, first)))
            .map(|(row, first)| {
                let column = first + self.padding[1];
                let place = self.offset(row + self.padding[0], column);
                let room = self.columns.saturating_sub(column / s);
                [
                    row * width + first,
                    place,
                    (width - first).div_ceil(s).min(room),
                ]
            })
            .filter(|[.., count]| *count > 0)
            .collect();
        let channels = image.chunks_exact(height * width);
        for (pixels, field) in channels.zip(field.chunks_exact_mut(self.channel())) {
            for [first, place, count] in runs.iter().copied() {
                let target = &mut field[place..place + count];
                every(&pixels[first..], s, target);
            }
        }
    }
}

/// Copies numbers at a fixed stride.
#[inline(always)]
pub(crate) fn every(from: &[f32], stride: usize, to: &mut [f32]) {
    match stride {
        1 => copy_row(&from[..to.len()], to),
        2 => {
            let (pairs, last) = from.as_chunks::<2>();
            let count = to.len();
            for (to, pair) in to.iter_mut().zip(pairs) {
                *to = pair[0];
            }
            // At the end of a row, the last pair may lack its second number.
            if let ([last], true) = (last, count > pairs.len()) {
                to[count - 1] = *last;
            }
        }
        _ => {
            let from = from.iter().step_by(stride);
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }
}

/// Copies a row of pixels, which is too short for a function call to pay off.
#[inline(always)]
pub(crate) fn copy_row(from: &[f32], to: &mut [f32]) {
    const BLOCK: usize = 16;
    let (blocks, rest) = from.as_chunks::<BLOCK>();
    let (to_blocks, to_rest) = to.as_chunks_mut::<BLOCK>();
    for (to, from) in to_blocks.iter_mut().zip(blocks) {
        *to = *from;
    }
    for (to, from) in to_rest.iter_mut().zip(rest) {
        *to = *from;
    }
}

/// Positions to compute: `rows` rows of `width` pixels, `columns` apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Positions {
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) columns: usize,
}

impl Positions {
    /// Elements that hold all positions, with slack.
    pub(crate) fn size(&self) -> usize {
        self.rows * self.columns + SLACK
    }

    /// Runs of neighbouring positions: the number of runs, the distance from one to the next, and the number of
    /// vectors in each. A run is a row, or all rows together with the padding between them, whichever is less
    /// work. With `exact` a run must not reach into the pixels of the next row.
    pub(crate) fn runs(self, lanes: usize, exact: bool) -> [usize; 3] {
        let by_row = self.rows * self.width.div_ceil(lanes);
        let total = (self.rows - 1) * self.columns + self.width;
        let whole = total.div_ceil(lanes);
        let fits = !exact || self.width.is_multiple_of(lanes) || self.rows == 1;
        match by_row <= whole && fits {
            true => [self.rows, self.columns, self.width.div_ceil(lanes)],
            false => [1, 0, whole],
        }
    }
}
