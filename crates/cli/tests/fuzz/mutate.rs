//! Changes to the bytes of a file, each a function of a number.

/// A sequence of random numbers (SplitMix64, Steele, Lea and Flood 2014).
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to but not including `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A range within `length`, mostly a short one.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let longest = match self.below(4) {
            0 => length,
            _ => 16,
        };
        start..(start + self.below(longest + 1)).min(length)
    }
}

/// Most bytes of a changed file.
const LONGEST: usize = 1 << 18;

/// Replacements for a number in a text.
const NUMBERS: [&str; 16] = [
    "",
    "0",
    "-1",
    "1",
    "7",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775808",
    "18446744073709551616",
    "1e308",
    "-1e309",
    "nan",
    "inf",
    "0.1",
];

/// One to four changes of `bytes`; some take bytes from `other`, another file of the same kind.
pub fn mutated(mut bytes: Vec<u8>, other: &[u8], draws: &mut Draws) -> Vec<u8> {
    for _ in 0..=draws.below(4) {
        change(&mut bytes, other, draws);
        bytes.truncate(LONGEST);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], draws: &mut Draws) {
    let length = bytes.len();
    match draws.below(11) {
        0 | 1 if length > 0 => bytes[draws.below(length)] ^= 1 << draws.below(8),
        2 if length > 0 => {
            let any = draws.next() as u8;
            let at = draws.below(length);
            bytes[at] = draws.one(&[0, 1, 0x7f, 0x80, 0xfe, 0xff, any]);
        }
        3 => bytes.truncate(draws.below(length)),
        4 => drop(bytes.drain(draws.range(length))),
        5 => {
            let inserted: Vec<u8> = (0..draws.below(16)).map(|_| draws.next() as u8).collect();
            let at = draws.below(length + 1);
            bytes.splice(at..at, inserted);
        }
        // Repeats a part up to a thousand times.
        6 => {
            let range = draws.range(length);
            let times = [1, 2, 30, 1000][draws.below(4)];
            let repeated = bytes[range.clone()].repeat(times.min(LONGEST / range.len().max(1)));
            bytes.splice(range.end..range.end, repeated);
        }
        7 => {
            let from = draws.range(other.len());
            let to = draws.range(length);
            bytes.splice(to, other[from].iter().copied());
        }
        8 => {
            let cut = draws.below(other.len() + 1);
            bytes.truncate(draws.below(length + 1));
            bytes.extend(&other[cut..]);
        }
        9 => number_of_bytes(bytes, draws),
        _ => number_of_digits(bytes, draws),
    }
}

/// Changes a possible length field: one, two, four or eight bytes in either byte order.
fn number_of_bytes(bytes: &mut [u8], draws: &mut Draws) {
    let width = draws.one(&[1, 2, 4, 8]);
    if bytes.len() < width {
        return;
    }
    let at = draws.below(bytes.len() - width + 1);
    let big_endian = draws.below(2) == 1;
    let field = &mut bytes[at..at + width];
    let mut word = [0; 8];
    word[..width].copy_from_slice(field);
    if big_endian {
        word[..width].reverse();
    }
    let value = u64::from_le_bytes(word);
    let shift = draws.below(64) as u32;
    let changed = draws.one(&[
        0,
        1,
        u64::MAX,
        u64::MAX >> 1,
        1 << shift,
        (1 << shift) - 1,
        value.wrapping_add(1),
        value.wrapping_sub(1),
        value.wrapping_mul(2),
        value / 2,
    ]);
    field.copy_from_slice(&changed.to_le_bytes()[..width]);
    if big_endian {
        field.reverse();
    }
}

/// Changes a number that is written in digits.
fn number_of_digits(bytes: &mut Vec<u8>, draws: &mut Draws) {
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|&at| bytes[at].is_ascii_digit() && (at == 0 || !bytes[at - 1].is_ascii_digit()))
        .collect();
    if starts.is_empty() {
        return;
    }
    let start = draws.one(&starts);
    let digits = bytes[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let end = start + digits.count();
    bytes.splice(start..end, draws.one(&NUMBERS).bytes());
}
