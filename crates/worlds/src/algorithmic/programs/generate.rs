//! Generating programs: the operations of Zaremba and Sutskever 2014 (learning to execute), and the three
//! families of Santoro et al. 2018, figure 6.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Curriculum, Hardness, ProgramKind};

/// Draws literals and numbers of operations according to a curriculum.
pub(super) struct Draw<'g> {
    pub generator: &'g mut ChaCha8Rng,
    pub target: Hardness,
    pub curriculum: Curriculum,
}

impl Draw<'_> {
    fn hardness(&mut self) -> Hardness {
        self.curriculum.draw(self.target, self.generator)
    }

    fn coin(&mut self) -> bool {
        self.generator.random()
    }

    fn below(&mut self, end: usize) -> usize {
        self.generator.random_range(0..end)
    }

    /// A number with exactly as many digits as the curriculum draws.
    fn literal(&mut self) -> String {
        let digits = self.hardness().length as u32;
        let number = self
            .generator
            .random_range(10u64.pow(digits - 1)..10u64.pow(digits));
        number.to_string()
    }

    /// A number up to 10^L, together with the drawn L.
    fn literal_up_to(&mut self) -> (String, usize) {
        let length = self.hardness().length;
        let number = self.generator.random_range(1..=10u64.pow(length as u32));
        (number.to_string(), length)
    }
}

/// A program of this kind; for memorisation, a string of digits.
pub(super) fn source(kind: ProgramKind, draw: &mut Draw) -> String {
    let print = |program: String| format!("{program}\nprint(x % 10**length)");
    match kind {
        ProgramKind::Original => original(draw),
        ProgramKind::Addition => {
            let sum = addition(draw);
            print(format!("x={}", without_brackets(&sum)))
        }
        ProgramKind::Control => {
            let choice = control(draw);
            print(format!("x = {}", without_brackets(&choice)))
        }
        ProgramKind::FullProgram => print(full_program(draw)),
        ProgramKind::Copy | ProgramKind::Reverse | ProgramKind::Double => digits(draw),
    }
}

/// Operations are composed: each takes the result of the one before as one of its operands, and
/// new literals as the others, in random order.
fn original(draw: &mut Draw) -> String {
    let mut names: Vec<char> = ('a'..='j').collect();
    let mut lines = Vec::new();
    let mut last: Option<String> = None;
    for _ in 0..draw.hardness().nesting {
        let operation = draw.below(6);
        let mut operands = |draw: &mut Draw, count: usize| -> Vec<String> {
            let mut taken: Vec<String> = last.take().into_iter().collect();
            while taken.len() < count {
                taken.push(draw.literal_up_to().0);
            }
            for end in (1..count).rev() {
                taken.swap(end, draw.below(end + 1));
            }
            taken
        };
        let new_name = |draw: &mut Draw, names: &mut Vec<char>| {
            let chosen = draw.below(names.len());
            names.swap_remove(chosen)
        };
        let sign = |draw: &mut Draw| if draw.coin() { '+' } else { '-' };
        last = Some(match operation {
            0 => {
                let [a, b] = pair(operands(draw, 2));
                format!("({a}{}{b})", sign(draw))
            }
            1 => {
                let operand = operands(draw, 1).remove(0);
                let factor = small(draw);
                if draw.coin() {
                    format!("({operand}*{factor})")
                } else {
                    format!("({factor}*{operand})")
                }
            }
            2 => operands(draw, 1).remove(0),
            3 => {
                let [a, b] = pair(operands(draw, 2));
                let name = new_name(draw, &mut names);
                lines.push(format!("{name}={a}"));
                format!("({name}{}{b})", sign(draw))
            }
            4 => {
                let [a, b] = pair(operands(draw, 2));
                let name = new_name(draw, &mut names);
                let times = small(draw);
                lines.push(format!("{name}={a}"));
                lines.push(format!("for x in range({times}):{name}{}={b}", sign(draw)));
                name.to_string()
            }
            _ => {
                let [a, b, c, d] = <[String; 4]>::try_from(operands(draw, 4))
                    .expect("four operands were asked for");
                let comparison = if draw.coin() { '>' } else { '<' };
                format!("({c} if {a}{comparison}{b} else {d})")
            }
        });
    }
    lines.push(format!("print({})", last.unwrap_or_default()));
    lines.join("\n")
}

fn pair(operands: Vec<String>) -> [String; 2] {
    operands.try_into().expect("two operands were asked for")
}

/// A factor or a number of repetitions: from 1 to 4 L.
fn small(draw: &mut Draw) -> usize {
    let length = draw.hardness().length;
    1 + draw.below(4 * length)
}

/// A sum or difference of a literal and `operand`, in random order.
fn sum_with(draw: &mut Draw, operand: &str) -> String {
    let literal = draw.literal();
    let sign = if draw.coin() { '+' } else { '-' };
    if draw.coin() {
        format!("({operand}{sign}{literal})")
    } else {
        format!("({literal}{sign}{operand})")
    }
}

fn addition(draw: &mut Draw) -> String {
    let mut sum = draw.literal();
    for _ in 0..draw.hardness().nesting {
        sum = sum_with(draw, &sum);
    }
    sum
}

/// Begins with a literal; each operation replaces one of the literals with a choice or a sum.
fn control(draw: &mut Draw) -> String {
    enum Piece {
        Literal(String),
        Text(&'static str),
    }
    let mut pieces = vec![Piece::Literal(draw.literal())];
    for _ in 0..draw.hardness().nesting {
        let literals: Vec<usize> = (0..pieces.len())
            .filter(|&at| matches!(pieces[at], Piece::Literal(_)))
            .collect();
        let chosen = literals[draw.below(literals.len())];
        let texts: &[&'static str] = if draw.generator.random_range(0..5) == 0 {
            &["(", " + ", ")"]
        } else if draw.coin() {
            &["(", " if ", " < ", " else ", ")"]
        } else {
            &["(", " if ", " > ", " else ", ")"]
        };
        let mut replacement = vec![Piece::Text(texts[0])];
        for text in &texts[1..] {
            replacement.push(Piece::Literal(draw.literal()));
            replacement.push(Piece::Text(text));
        }
        pieces.splice(chosen..=chosen, replacement);
    }
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Literal(literal) => literal.as_str(),
        Piece::Text(text) => text,
    });
    texts.collect()
}

/// Operations on the value so far: sums, choices, loops. A loop over a value that is itself a program takes
/// it in brackets; any other operation makes a new assignment.
fn full_program(draw: &mut Draw) -> String {
    /// The value so far.
    enum Value {
        /// Not assigned yet.
        Expression(String),
        /// Statements that assign x.
        Program(String),
    }
    let mut value = Value::Expression(draw.literal());
    for _ in 0..draw.hardness().nesting {
        let operation = draw.below(3);
        if operation == 2 {
            let before = match value {
                Value::Expression(expression) => assigned(&expression),
                Value::Program(program) => format!("x = ({program})"),
            };
            let times = 1 + draw.below(9);
            let sign = if draw.coin() { '+' } else { '-' };
            let literal = draw.literal();
            value = Value::Program(format!("{before}\nfor[{times}] x{sign}={literal}"));
            continue;
        }
        let operand = match &value {
            Value::Expression(expression) => expression,
            Value::Program(_) => "x",
        };
        let expression = if operation == 0 {
            sum_with(draw, operand)
        } else {
            choice_with(draw, operand)
        };
        value = match value {
            Value::Expression(_) => Value::Expression(expression),
            Value::Program(program) => {
                Value::Program(format!("{program}\n{}", assigned(&expression)))
            }
        };
    }
    match value {
        Value::Expression(expression) => assigned(&expression),
        Value::Program(program) => program,
    }
}

/// A choice in which `operand` is one of the four numbers.
fn choice_with(draw: &mut Draw, operand: &str) -> String {
    let place = draw.below(4);
    let [yes, left, right, no] = std::array::from_fn(|at| {
        if at == place {
            operand.to_owned()
        } else {
            draw.literal()
        }
    });
    let comparison = if draw.coin() { '>' } else { '<' };
    format!("({yes} if {left} {comparison} {right} else {no})")
}

/// Sums are written without spaces, choices with spaces and brackets.
fn assigned(expression: &str) -> String {
    if expression.contains(' ') {
        format!("x = {expression}")
    } else {
        format!("x={}", without_brackets(expression))
    }
}

/// A bracketed expression without its outermost brackets.
fn without_brackets(expression: &str) -> &str {
    let inner = expression.strip_prefix('(');
    inner
        .and_then(|inner| inner.strip_suffix(')'))
        .unwrap_or(expression)
}

/// Memorisation: a string of digits, as long as the curriculum draws.
fn digits(draw: &mut Draw) -> String {
    let length = draw.hardness().length;
    let digit = |_| char::from(b'0' + draw.generator.random_range(0..10u8));
    (0..length).map(digit).collect()
}
