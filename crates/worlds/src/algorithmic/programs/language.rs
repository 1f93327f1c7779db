//! The small language of the programs, parsed and executed as Python would.
//!
//! ```text
//! program    = statement { newline statement }          the last one prints, no other does
//! statement  = assignment | loop | "print" "(" expression ")"
//! assignment = name ( "=" | "+=" | "-=" ) expression
//! loop       = "for" "[" number "]" assignment
//!            | "for" name "in" "range" "(" number ")" ":" assignment
//! expression = sum [ "if" sum ( "<" | ">" ) sum "else" expression ]
//! sum        = product { ( "+" | "-" ) product }
//! product    = factor { ( "*" | "%" ) factor }
//! factor     = "-" factor | atom [ "**" factor ]
//! atom       = number | name | "(" expression ")" | "(" block ")"
//! block      = assignment { newline ( assignment | loop ) }
//! ```
//!
//! All forms except two are Python's, with its precedence and its remainder, which has the sign of the
//! divisor. The other two: `for[k] s` executes `s` k times. A block in brackets is executed, and its value is that
//! of the variable that its last statement assigned, as in the third full program of figure 6 in Santoro
//! et al. 2018. Names are lower-case letters; `length` is defined from the start.

use std::collections::HashMap;

use crate::Error;

/// Deepest nesting of expressions: far deeper than generated programs, but small enough for the stack.
const DEEPEST: usize = 200;

/// Most executions of a loop's statement in one program.
const MOST_STEPS: i128 = 1_000_000;

/// The output of a program in which the name `length` has the value `length`.
///
/// # Errors
/// The program is not in the language, uses a name before it has a value, divides by 0, raises
/// to a negative power, executes loops more than a million times, or computes a number beyond 128 bits.
/// The error names line and column.
pub fn evaluate_program(source: &str, length: u32) -> Result<i128, Error> {
    let tokens = tokens(source)?;
    let mut parser = Parser {
        tokens: &tokens,
        next: 0,
        depth: 0,
    };
    let (statements, printed) = parser.program()?;
    let mut machine = Machine {
        values: HashMap::from([("length", i128::from(length))]),
        steps: 0,
    };
    machine.run(&statements)?;
    machine.value(&printed)
}

/// A place in a program, both from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn error<T>(self, problem: impl Into<String>) -> Result<T, Error> {
        Err(Error::Program {
            line: self.line,
            column: self.column,
            problem: problem.into(),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Symbol<'a> {
    Number(i128),
    Name(&'a str),
    /// A keyword, an operator, a bracket.
    Mark(&'static str),
    Newline,
    End,
}

impl Symbol<'_> {
    fn describe(self) -> String {
        match self {
            Symbol::Number(number) => format!("the number {number}"),
            Symbol::Name(name) => format!("the name {name}"),
            Symbol::Mark(mark) => format!("{mark:?}"),
            Symbol::Newline => "the end of the line".to_owned(),
            Symbol::End => "the end of the program".to_owned(),
        }
    }
}

type Token<'a> = (Symbol<'a>, Place);

const KEYWORDS: [&str; 6] = ["for", "if", "else", "in", "range", "print"];
/// Longer ones first.
const OPERATORS: [&str; 15] = [
    "**", "+=", "-=", "+", "-", "*", "%", "(", ")", "[", "]", "=", "<", ">", ":",
];

fn tokens(source: &str) -> Result<Vec<Token<'_>>, Error> {
    let mut found = Vec::new();
    let mut place = Place { line: 1, column: 1 };
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let run = |belongs: fn(char) -> bool| {
            let end = rest.find(|next| !belongs(next));
            &rest[..end.unwrap_or(rest.len())]
        };
        let (symbol, text) = if first == '\n' {
            (Some(Symbol::Newline), "\n")
        } else if first == ' ' {
            (None, " ")
        } else if first.is_ascii_digit() {
            let digits = run(|next| next.is_ascii_digit());
            if digits.len() > 1 && first == '0' {
                return place.error(format!("the number {digits} begins with 0"));
            }
            let Ok(number) = digits.parse() else {
                return place.error(format!("a number of {} digits is too large", digits.len()));
            };
            (Some(Symbol::Number(number)), digits)
        } else if first.is_ascii_lowercase() {
            let word = run(|next| next.is_ascii_lowercase());
            let keyword = KEYWORDS.into_iter().find(|keyword| *keyword == word);
            (Some(keyword.map_or(Symbol::Name(word), Symbol::Mark)), word)
        } else if let Some(mark) = OPERATORS.into_iter().find(|mark| rest.starts_with(mark)) {
            (Some(Symbol::Mark(mark)), mark)
        } else {
            return place.error(format!(
                "{first:?} is not in the language, which has digits, lower-case letters, spaces, line ends and + - * % ( ) [ ] = < > :"
            ));
        };
        found.extend(symbol.map(|symbol| (symbol, place)));
        if first == '\n' {
            place = Place {
                line: place.line + 1,
                column: 1,
            };
        } else {
            place.column += text.len();
        }
        rest = &rest[text.len()..];
    }
    found.push((Symbol::End, place));
    Ok(found)
}

#[derive(Debug)]
enum Expression<'a> {
    Number(i128),
    Name(&'a str, Place),
    Negative(Box<Expression<'a>>, Place),
    /// Operators applied from left to right.
    Chain(Box<Expression<'a>>, Vec<(Operator, Place, Expression<'a>)>),
    /// `yes if left < right else no`, the four in this order.
    Choice(Comparison, Box<[Expression<'a>; 4]>),
    Block(Vec<Statement<'a>>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Plus,
    Minus,
    Times,
    Remainder,
    Power,
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Less,
    Greater,
}

#[derive(Debug)]
struct Assignment<'a> {
    name: &'a str,
    /// `x += 1` is `x = x + (1)`.
    update: Option<Operator>,
    value: Expression<'a>,
    place: Place,
}

#[derive(Debug)]
enum Statement<'a> {
    Assign(Assignment<'a>),
    Repeat {
        /// The name, if any, that takes the values 0, 1, ...
        counter: Option<&'a str>,
        times: i128,
        body: Assignment<'a>,
    },
}

impl<'a> Statement<'a> {
    fn assigned(&self) -> (&'a str, Place) {
        let (Statement::Assign(assignment)
        | Statement::Repeat {
            body: assignment, ..
        }) = self;
        (assignment.name, assignment.place)
    }
}

struct Parser<'s, 'a> {
    tokens: &'s [Token<'a>],
    next: usize,
    depth: usize,
}

impl<'a> Parser<'_, 'a> {
    /// The token `ahead` places after the next one; the end token beyond the end.
    fn peek(&self, ahead: usize) -> Token<'a> {
        let last = self.tokens.len() - 1;
        self.tokens[(self.next + ahead).min(last)]
    }

    fn place(&self) -> Place {
        self.peek(0).1
    }

    fn at(&self, mark: &'static str) -> bool {
        self.peek(0).0 == Symbol::Mark(mark)
    }

    fn skip(&mut self, mark: &'static str) -> bool {
        let there = self.at(mark);
        self.next += usize::from(there);
        there
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T, Error> {
        let (symbol, place) = self.peek(0);
        place.error(format!("{wanted} expected, not {}", symbol.describe()))
    }

    fn expect(&mut self, mark: &'static str) -> Result<(), Error> {
        if self.skip(mark) {
            return Ok(());
        }
        self.unexpected(&format!("{mark:?}"))
    }

    fn program(&mut self) -> Result<(Vec<Statement<'a>>, Expression<'a>), Error> {
        let mut statements = Vec::new();
        while !self.skip("print") {
            statements.push(self.statement("an assignment, a loop or print")?);
            if self.peek(0).0 != Symbol::Newline {
                return self.unexpected("an operator or a new line");
            }
            self.next += 1;
        }
        self.expect("(")?;
        let printed = self.expression()?;
        self.expect(")")?;
        if self.peek(0).0 == Symbol::Newline {
            self.next += 1;
        }
        if self.peek(0).0 != Symbol::End {
            return self.unexpected("the end of the program after print(...)");
        }
        Ok((statements, printed))
    }

    fn statement(&mut self, wanted: &str) -> Result<Statement<'a>, Error> {
        if self.skip("for") {
            let (counter, closing) = if self.skip("[") {
                (None, "]")
            } else {
                let counter = self.name("\"[\" or a name")?;
                self.expect("in")?;
                self.expect("range")?;
                self.expect("(")?;
                (Some(counter), ")")
            };
            let Symbol::Number(times) = self.peek(0).0 else {
                return self.unexpected("how often, a number,");
            };
            self.next += 1;
            self.expect(closing)?;
            if counter.is_some() {
                self.expect(":")?;
            }
            let body = self.assignment("an assignment")?;
            return Ok(Statement::Repeat {
                counter,
                times,
                body,
            });
        }
        Ok(Statement::Assign(self.assignment(wanted)?))
    }

    fn name(&mut self, wanted: &str) -> Result<&'a str, Error> {
        let Symbol::Name(name) = self.peek(0).0 else {
            return self.unexpected(wanted);
        };
        self.next += 1;
        Ok(name)
    }

    fn assignment(&mut self, wanted: &str) -> Result<Assignment<'a>, Error> {
        let place = self.place();
        let name = self.name(wanted)?;
        let update = if self.skip("+=") {
            Some(Operator::Plus)
        } else if self.skip("-=") {
            Some(Operator::Minus)
        } else if self.skip("=") {
            None
        } else {
            return self.unexpected("=, += or -=");
        };
        Ok(Assignment {
            name,
            update,
            value: self.expression()?,
            place,
        })
    }

    fn expression(&mut self) -> Result<Expression<'a>, Error> {
        self.deeper(|parser| {
            let yes = parser.sum()?;
            if !parser.skip("if") {
                return Ok(yes);
            }
            let left = parser.sum()?;
            let comparison = if parser.skip("<") {
                Comparison::Less
            } else if parser.skip(">") {
                Comparison::Greater
            } else {
                return parser.unexpected("\"<\" or \">\"");
            };
            let right = parser.sum()?;
            parser.expect("else")?;
            let no = parser.expression()?;
            Ok(Expression::Choice(
                comparison,
                Box::new([yes, left, right, no]),
            ))
        })
    }

    fn deeper(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<Expression<'a>, Error>,
    ) -> Result<Expression<'a>, Error> {
        if self.depth == DEEPEST {
            return self
                .place()
                .error(format!("nested more than {DEEPEST} deep"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn sum(&mut self) -> Result<Expression<'a>, Error> {
        let operators = [("+", Operator::Plus), ("-", Operator::Minus)];
        self.chain(&operators, Self::product)
    }

    fn product(&mut self) -> Result<Expression<'a>, Error> {
        let operators = [("*", Operator::Times), ("%", Operator::Remainder)];
        self.chain(&operators, Self::factor)
    }

    /// Operators of one precedence, from left to right.
    fn chain(
        &mut self,
        operators: &[(&'static str, Operator)],
        operand: fn(&mut Self) -> Result<Expression<'a>, Error>,
    ) -> Result<Expression<'a>, Error> {
        let first = operand(self)?;
        let mut others = Vec::new();
        loop {
            let place = self.place();
            let Some(&(_, operator)) = operators.iter().find(|(mark, _)| self.at(mark)) else {
                break;
            };
            self.next += 1;
            others.push((operator, place, operand(self)?));
        }
        if others.is_empty() {
            return Ok(first);
        }
        Ok(Expression::Chain(Box::new(first), others))
    }

    fn factor(&mut self) -> Result<Expression<'a>, Error> {
        let place = self.place();
        if self.skip("-") {
            let operand = self.deeper(Self::factor)?;
            return Ok(Expression::Negative(Box::new(operand), place));
        }
        let base = self.atom()?;
        let place = self.place();
        if self.skip("**") {
            let exponent = self.deeper(Self::factor)?;
            let raised = vec![(Operator::Power, place, exponent)];
            return Ok(Expression::Chain(Box::new(base), raised));
        }
        Ok(base)
    }

    fn atom(&mut self) -> Result<Expression<'a>, Error> {
        let place = self.place();
        match self.peek(0).0 {
            Symbol::Number(number) => {
                self.next += 1;
                Ok(Expression::Number(number))
            }
            Symbol::Name(name) => {
                self.next += 1;
                Ok(Expression::Name(name, place))
            }
            Symbol::Mark("(") => {
                self.next += 1;
                let inner = match (self.peek(0).0, self.peek(1).0) {
                    (Symbol::Name(_), Symbol::Mark("=" | "+=" | "-=")) => self.block()?,
                    _ => self.expression()?,
                };
                self.expect(")")?;
                Ok(inner)
            }
            _ => self.unexpected("a number, a name or \"(\""),
        }
    }

    fn block(&mut self) -> Result<Expression<'a>, Error> {
        self.deeper(|parser| {
            let mut statements = vec![parser.statement("an assignment")?];
            while parser.peek(0).0 == Symbol::Newline {
                parser.next += 1;
                statements.push(parser.statement("an assignment or a loop")?);
            }
            Ok(Expression::Block(statements))
        })
    }
}

struct Machine<'a> {
    values: HashMap<&'a str, i128>,
    steps: i128,
}

impl<'a> Machine<'a> {
    fn run(&mut self, statements: &[Statement<'a>]) -> Result<(), Error> {
        for statement in statements {
            match statement {
                Statement::Assign(assignment) => self.assign(assignment)?,
                Statement::Repeat {
                    counter,
                    times,
                    body,
                } => {
                    self.steps = self.steps.saturating_add(*times);
                    if self.steps > MOST_STEPS {
                        return body.place.error(format!(
                            "loops of {} steps in all, but at most {MOST_STEPS} are executed",
                            self.steps
                        ));
                    }
                    for step in 0..*times {
                        if let Some(counter) = counter {
                            self.values.insert(counter, step);
                        }
                        self.assign(body)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn assign(&mut self, assignment: &Assignment<'a>) -> Result<(), Error> {
        let &Assignment {
            name,
            update,
            ref value,
            place,
        } = assignment;
        let value = match update {
            None => self.value(value)?,
            Some(operator) => {
                let old = self.named(name, place)?;
                apply(operator, old, self.value(value)?, place)?
            }
        };
        self.values.insert(name, value);
        Ok(())
    }

    fn named(&self, name: &str, place: Place) -> Result<i128, Error> {
        match self.values.get(name) {
            Some(value) => Ok(*value),
            None => place.error(format!("{name} has no value yet")),
        }
    }

    fn value(&mut self, expression: &Expression<'a>) -> Result<i128, Error> {
        match expression {
            Expression::Number(number) => Ok(*number),
            Expression::Name(name, place) => self.named(name, *place),
            Expression::Negative(operand, place) => {
                apply(Operator::Minus, 0, self.value(operand)?, *place)
            }
            Expression::Chain(first, others) => {
                let mut left = self.value(first)?;
                for (operator, place, operand) in others {
                    left = apply(*operator, left, self.value(operand)?, *place)?;
                }
                Ok(left)
            }
            Expression::Choice(comparison, parts) => {
                let [yes, left, right, no] = &**parts;
                let (left, right) = (self.value(left)?, self.value(right)?);
                let holds = match comparison {
                    Comparison::Less => left < right,
                    Comparison::Greater => left > right,
                };
                self.value(if holds { yes } else { no })
            }
            Expression::Block(statements) => {
                self.run(statements)?;
                let last = statements.last().expect("a block has a statement");
                let (name, place) = last.assigned();
                self.named(name, place)
            }
        }
    }
}

fn apply(operator: Operator, left: i128, right: i128, place: Place) -> Result<i128, Error> {
    let result = match operator {
        Operator::Plus => left.checked_add(right),
        Operator::Minus => left.checked_sub(right),
        Operator::Times => left.checked_mul(right),
        Operator::Remainder if right == 0 => return place.error("remainder of a division by 0"),
        Operator::Remainder => left.checked_rem(right).map(|rest| {
            let other_sign = rest != 0 && (rest < 0) != (right < 0);
            if other_sign { rest + right } else { rest }
        }),
        Operator::Power => match u32::try_from(right) {
            Ok(exponent) => left.checked_pow(exponent),
            Err(_) if right < 0 => return place.error("a negative power is no whole number"),
            Err(_) => None,
        },
    };
    match result {
        Some(result) => Ok(result),
        None => place.error("the number is too large for 128 bits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(source: &str, length: u32) -> i128 {
        evaluate_program(source, length).unwrap()
    }

    fn refusal(source: &str) -> String {
        let text = evaluate_program(source, 1).unwrap_err().to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    }

    /// The samples of figure 6 with their answers.
    #[test]
    fn the_samples_of_the_paper_print_what_they_print_there() {
        let print = "print(x % 10**length)";
        let addition = format!("x=473278230+(1257657+32721978)\n{print}");
        assert_eq!(value(&addition, 7), 7_257_865);
        let control =
            format!("x = 221 if ((411 if 918 > 314 else 680) + 321) < 778 else 652\n{print}");
        assert_eq!(value(&control, 3), 221);
        let full = [
            ("x=82930-31249\nfor[6] x+=98315", 641_571),
            (
                "x = (28694 if 89425 > 31990 else 38662)\nfor[5] x += 54926",
                303_324,
            ),
            ("x = (x=76957\nfor[7] x += 62117)\nfor[8] x+=90285", 234_056),
        ];
        for (program, printed) in full {
            assert_eq!(value(&format!("{program}\n{print}"), 6), printed);
        }
    }

    #[test]
    fn precedence_and_remainders_are_those_of_python() {
        let printed = |expression: &str| value(&format!("print({expression})"), 2);
        assert_eq!(printed("1+2*3-4"), 3);
        assert_eq!(printed("2**3**2"), 512);
        assert_eq!(printed("-2**2"), -4);
        assert_eq!(printed("2*-3"), -6);
        assert_eq!(printed("-7%3"), 2);
        assert_eq!(printed("7%-3"), -2);
        assert_eq!(printed("-6%3"), 0);
        assert_eq!(printed("100%7%2*5"), 0);
        assert_eq!(printed("1+1 if 1>2 else 3 if 2<1 else 4"), 4);
        assert_eq!(printed("10**length"), 100);
        let counted = "j=8584\nfor x in range(8):j+=920\nb=(1500+j)\nprint((b+7567))\n";
        assert_eq!(value(counted, 1), 25_011);
        assert_eq!(value("a=1\nfor x in range(4):a+=x\nprint(a*x)", 1), 21);
        assert_eq!(value("for[0] x=1\nprint(2)", 1), 2);
    }

    #[test]
    fn programs_outside_the_language_are_refused_with_their_place() {
        for (source, wanted) in [
            (
                "",
                "line 1, column 1: an assignment, a loop or print expected, not the end of the program",
            ),
            (
                "x=1",
                "line 1, column 4: an operator or a new line expected, not the end of the program",
            ),
            ("x=1\ny=A", "line 2, column 3: 'A' is not in the language"),
            ("x=1\nprint(y)", "line 2, column 7: y has no value yet"),
            ("y+=1\nprint(y)", "line 1, column 1: y has no value yet"),
            (
                "print(1",
                "line 1, column 8: \")\" expected, not the end of the program",
            ),
            (
                "print(1))",
                "line 1, column 9: the end of the program after print(...) expected, not \")\"",
            ),
            (
                "print(1)\nprint(2)",
                "line 2, column 1: the end of the program after print(...)",
            ),
            (
                "x=1 print(x)",
                "line 1, column 5: an operator or a new line expected, not \"print\"",
            ),
            (
                "for[x] x=1\nprint(x)",
                "line 1, column 5: how often, a number, expected, not the name x",
            ),
            (
                "for i in range(3) x=1\nprint(x)",
                "line 1, column 19: \":\" expected",
            ),
            (
                "print(007)",
                "line 1, column 7: the number 007 begins with 0",
            ),
            (
                "print(5%(2-2))",
                "line 1, column 8: remainder of a division by 0",
            ),
            ("print(2**-1)", "line 1, column 8: a negative power"),
            (
                "print(10**39)",
                "line 1, column 9: the number is too large for 128 bits",
            ),
            (
                "print(1 if 2 else 3)",
                "line 1, column 14: \"<\" or \">\" expected, not \"else\"",
            ),
            (
                "for[999999999] x=1\nprint(x)",
                "line 1, column 16: loops of 999999999 steps",
            ),
            (
                "x = (x=1\nprint(x))\nprint(x)",
                "line 2, column 1: an assignment or a loop expected, not \"print\"",
            ),
        ] {
            let text = refusal(source);
            assert!(text.contains(wanted), "{source:?}: {text}");
        }
        let deep = format!("print({}1{})", "(".repeat(5000), ")".repeat(5000));
        assert!(refusal(&deep).contains("nested more than 200 deep"));
        assert!(refusal(&format!("print({}1)", "-".repeat(5000))).contains("200 deep"));
        assert_eq!(value(&format!("print(1{})", "+1".repeat(5000)), 1), 5001);
        assert!(refusal(&format!("print({})", "9".repeat(50))).contains("50 digits"));
    }

    proptest! {
        #[test]
        fn any_text_is_executed_or_refused(
            source in "[0-9a-c+*%()<>=: \n-]{0,40}|(print\\(|for\\[3\\]|x=|1|\\)|\n|if|else| |<|-){0,20}",
        ) {
            if let Err(error) = evaluate_program(&source, 2) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
