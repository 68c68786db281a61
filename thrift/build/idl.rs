//! Parser of the subset of Thrift's interface language that `idl/` uses: typedef, enum, struct, exception, service.
//! `///` comments are kept. A comment `//: NAME` within a service begins a part, whose methods get a trait of that
//! name.

/// A parsed Thrift interface file.
#[derive(Default)]
pub struct Document {
    pub typedefs: Vec<(String, Type)>,
    pub enums: Vec<Enum>,
    pub structs: Vec<Struct>,
    pub functions: Vec<Function>,
}

pub struct Enum {
    pub docs: Vec<String>,
    pub name: String,
    pub values: Vec<(String, i32)>,
}

pub struct Struct {
    pub docs: Vec<String>,
    pub name: String,
    pub fields: Vec<Field>,
    pub is_exception: bool,
}

pub struct Field {
    pub id: i16,
    pub name: String,
    pub ty: Type,
    pub optional: bool,
}

pub struct Function {
    pub docs: Vec<String>,
    /// The part of the service to which the method belongs; `None` if the service has no parts.
    pub part: Option<String>,
    pub name: String,
    /// Return type of the method; `None` for void.
    pub returns: Option<Type>,
    pub args: Vec<Field>,
    /// Exceptions that the method may throw; at most one.
    pub throws: Vec<Field>,
}

#[derive(Clone)]
pub enum Type {
    Named(String),
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
}

#[derive(Clone, PartialEq)]
enum Token {
    Word(String),
    Sign(char),
    Doc(String),
    Part(String),
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
}

/// Parses a Thrift interface file.
///
/// # Errors
/// The line number, and what was expected there.
pub fn parse(text: &str) -> Result<Document, String> {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
    };
    let mut document = Document::default();
    while parser.at < parser.tokens.len() {
        let docs = parser.docs();
        match parser.word()?.as_str() {
            "namespace" => {
                parser.word()?;
                parser.word()?;
            }
            "typedef" => {
                let ty = parser.ty()?;
                document.typedefs.push((parser.word()?, ty));
            }
            "enum" => document.enums.push(parser.enumeration(docs)?),
            "struct" => document.structs.push(parser.structure(docs, false)?),
            "exception" => document.structs.push(parser.structure(docs, true)?),
            "service" => {
                parser.word()?;
                parser.expect('{')?;
                let mut part = None;
                while !parser.opt('}') {
                    part = parser.opt_part().or(part);
                    document.functions.push(parser.function(part.clone())?);
                }
            }
            other => return Err(parser.wrong(&format!("a definition, not `{other}`"))),
        }
    }
    Ok(document)
}

fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if let Some(doc) = trimmed.strip_prefix("///") {
            tokens.push((number + 1, Token::Doc(doc.trim().to_owned())));
            continue;
        }
        if let Some(part) = trimmed.strip_prefix("//:") {
            tokens.push((number + 1, Token::Part(part.trim().to_owned())));
            continue;
        }
        let code = trimmed.split('#').next().unwrap_or_default();
        let mut word = String::new();
        for c in code.chars().chain([' ']) {
            if c.is_ascii_alphanumeric() || c == '_' || c == '.' {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                tokens.push((number + 1, Token::Word(std::mem::take(&mut word))));
            }
            if !c.is_whitespace() {
                tokens.push((number + 1, Token::Sign(c)));
            }
        }
    }
    tokens
}

impl Parser {
    fn wrong(&self, expected: &str) -> String {
        let line = self
            .tokens
            .get(self.at.saturating_sub(1))
            .map_or(0, |t| t.0);
        format!("line {line}: expected {expected}")
    }

    fn docs(&mut self) -> Vec<String> {
        let mut docs = Vec::new();
        while let Some((_, Token::Doc(doc))) = self.tokens.get(self.at) {
            docs.push(doc.clone());
            self.at += 1;
        }
        docs
    }

    fn opt_part(&mut self) -> Option<String> {
        match self.tokens.get(self.at) {
            Some((_, Token::Part(part))) => {
                self.at += 1;
                Some(part.clone())
            }
            _ => None,
        }
    }

    fn word(&mut self) -> Result<String, String> {
        match self.tokens.get(self.at) {
            Some((_, Token::Word(word))) => {
                self.at += 1;
                Ok(word.clone())
            }
            _ => Err(self.wrong("a word")),
        }
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        let word = self.word()?;
        word.parse().map_err(|_| self.wrong("a number"))
    }

    fn opt(&mut self, sign: char) -> bool {
        let found = matches!(self.tokens.get(self.at), Some((_, Token::Sign(s))) if *s == sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        match self.opt(sign) {
            true => Ok(()),
            false => Err(self.wrong(&format!("`{sign}`"))),
        }
    }

    fn ty(&mut self) -> Result<Type, String> {
        let name = self.word()?;
        Ok(match name.as_str() {
            "list" => {
                self.expect('<')?;
                let element = self.ty()?;
                self.expect('>')?;
                Type::List(Box::new(element))
            }
            "map" => {
                self.expect('<')?;
                let key = self.ty()?;
                self.expect(',')?;
                let value = self.ty()?;
                self.expect('>')?;
                Type::Map(Box::new(key), Box::new(value))
            }
            _ => Type::Named(name),
        })
    }

    fn enumeration(&mut self, docs: Vec<String>) -> Result<Enum, String> {
        let name = self.word()?;
        let mut values = Vec::new();
        self.expect('{')?;
        while !self.opt('}') {
            let name = self.word()?;
            self.expect('=')?;
            values.push((name, self.number()?));
        }
        Ok(Enum { docs, name, values })
    }

    fn structure(&mut self, docs: Vec<String>, is_exception: bool) -> Result<Struct, String> {
        let name = self.word()?;
        self.expect('{')?;
        let fields = self.fields('}')?;
        Ok(Struct {
            docs,
            name,
            fields,
            is_exception,
        })
    }

    fn fields(&mut self, end: char) -> Result<Vec<Field>, String> {
        let mut fields = Vec::new();
        while !self.opt(end) {
            let id = self.number()?;
            self.expect(':')?;
            let mut ty = self.ty()?;
            let optional = matches!(&ty, Type::Named(word) if word == "optional");
            if optional {
                ty = self.ty()?;
            }
            let name = self.word()?;
            self.opt(',');
            fields.push(Field {
                id,
                name,
                ty,
                optional,
            });
        }
        Ok(fields)
    }

    fn function(&mut self, part: Option<String>) -> Result<Function, String> {
        let docs = self.docs();
        let returns = match self.ty()? {
            Type::Named(word) if word == "void" => None,
            ty => Some(ty),
        };
        let name = self.word()?;
        self.expect('(')?;
        let args = self.fields(')')?;
        let is_throws = Token::Word("throws".into());
        let throws = match self.tokens.get(self.at) {
            Some((_, word)) if *word == is_throws => {
                self.at += 1;
                self.expect('(')?;
                self.fields(')')?
            }
            _ => Vec::new(),
        };
        if throws.len() > 1 {
            return Err(self.wrong("one exception at most"));
        }
        Ok(Function {
            docs,
            part,
            name,
            returns,
            args,
            throws,
        })
    }
}
