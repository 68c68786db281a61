//! Prints JSON in p4c's layout: two spaces of indent, `"key" : value`, arrays of plain values on one line.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use serde::Serialize;
use serde_json::ser::Formatter;

/// Initial capacity of the text in bytes. Allocators resize blocks of this size without a copy.
const INITIAL_CAPACITY: usize = 256 << 10;

/// A comma, a line end, and the indent of most lines.
const LINE: &[u8] = b",\n                                                                ";

/// Returns a value as JSON text that ends in a newline.
pub fn print(value: &impl Serialize) -> serde_json::Result<String> {
    let text = Text(Rc::new(RefCell::new(Vec::with_capacity(INITIAL_CAPACITY))));
    let layout = P4cLayout {
        text: text.clone(),
        open: Vec::new(),
        starts: Vec::new(),
    };
    let mut serializer = serde_json::Serializer::with_formatter(text.clone(), layout);
    value.serialize(&mut serializer)?;
    drop(serializer);
    let mut bytes = text.0.take();
    bytes.push(b'\n');
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

/// The output so far, shared by the serializer, which appends, and the layout, which may change it.
#[derive(Clone)]
struct Text(Rc<RefCell<Vec<u8>>>);

impl Text {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }

    fn push(&self, text: &[u8]) {
        self.0.borrow_mut().extend_from_slice(text);
    }

    fn new_line(&self, comma: bool, depth: usize) {
        let mut text = self.0.borrow_mut();
        let (start, end) = (usize::from(!comma), 2 + 2 * depth);
        let line = &LINE[start..end.min(LINE.len())];
        text.extend_from_slice(line);
        let end = text.len() + (end - start - line.len());
        text.resize(end, b' ');
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct P4cLayout {
    text: Text,
    /// Open arrays and objects, the innermost last.
    open: Vec<Open>,
    /// Start positions of the items of open one-line arrays, the innermost last.
    starts: Vec<usize>,
}

enum Open {
    /// An array on one line, used while it contains only plain values.
    Line {
        /// Index of its first item in `starts`.
        first: usize,
    },
    /// An array with an item on each line.
    Lines,
    Object,
}

impl P4cLayout {
    /// Prepares for an array or object. If its parent is a one-line array, the parent is broken into lines.
    fn nest(&mut self) {
        let depth = self.open.len();
        let Some(&Open::Line { first }) = self.open.last() else {
            return;
        };
        self.open[depth - 1] = Open::Lines;
        let starts: Vec<usize> = self.starts.drain(first..).collect();
        let line = self.text.0.borrow_mut().split_off(starts[0]);
        for (number, &start) in starts.iter().enumerate() {
            self.text.new_line(number > 0, depth);
            if let Some(next) = starts.get(number + 1) {
                self.text
                    .push(&line[start - starts[0]..next - starts[0] - ", ".len()]);
            }
        }
    }
}

impl Formatter for P4cLayout {
    fn begin_array<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.nest();
        self.text.push(b"[");
        let first = self.starts.len();
        self.open.push(Open::Line { first });
        Ok(())
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        _: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if let Some(Open::Lines) = self.open.last() {
            self.text.new_line(!first, self.open.len());
            return Ok(());
        }
        if !first {
            self.text.push(b", ");
        }
        self.starts.push(self.text.len());
        Ok(())
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        match self.open.pop() {
            Some(Open::Line { first }) => self.starts.truncate(first),
            _ => self.text.new_line(false, self.open.len()),
        }
        self.text.push(b"]");
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.nest();
        self.text.push(b"{");
        self.open.push(Open::Object);
        Ok(())
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        _: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.text.new_line(!first, self.open.len());
        Ok(())
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.text.push(b" : ");
        Ok(())
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.open.pop();
        // `{` at the end of the output means an empty object, since no value ends with `{`.
        let is_empty = self.text.0.borrow().ends_with(b"{");
        if is_empty {
            self.text.push(b" ");
        } else {
            self.text.new_line(false, self.open.len());
        }
        self.text.push(b"}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{json, Value};

    use super::*;

    #[test]
    fn layout_equals_p4c() {
        let value = json!({
            "plain": [1, "two", null, true, -0.5],
            "empty": [[], {}],
            "mixed": [1, "a, b", [2, 3], 4, {"k": "\"\n"}, 5],
            "deep": [[[[]]], [["x"]]],
        });
        let expected = r#"{
  "plain" : [1, "two", null, true, -0.5],
  "empty" : [
    [],
    { }
  ],
  "mixed" : [
    1,
    "a, b",
    [2, 3],
    4,
    {
      "k" : "\"\n"
    },
    5
  ],
  "deep" : [
    [
      [
        []
      ]
    ],
    [
      ["x"]
    ]
  ]
}
"#;
        assert_eq!(print(&value).unwrap(), expected);
    }

    #[test]
    fn deep_lines_are_indented() {
        let value = (0..50).fold(json!({}), |inner, _| json!({"k": inner}));
        let text = print(&value).unwrap();
        let indents = text
            .lines()
            .map(|line| line.len() - line.trim_start().len());
        let mut expected: Vec<usize> = (0..=50).map(|depth| 2 * depth).collect();
        expected.extend((0..50).rev().map(|depth| 2 * depth));
        assert_eq!(indents.collect::<Vec<_>>(), expected);
    }

    fn value() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        plain.prop_recursive(6, 60, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(".{0,3}", inner, 0..4)
                    .prop_map(|members| members.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn printed_text_parses_to_the_same_value(value in value()) {
            let text = print(&value).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
            let wide = text.lines().any(|line| line.ends_with(' '));
            prop_assert!(!wide, "{text}");
        }
    }
}
