//! Tokens of the preprocessor and the parser (spec § 6.4).

use super::ast::{BinaryOp, Name};
use crate::diag::Span;

/// A token of the preprocessor or of P4, with its position.
#[derive(Clone, Debug)]
pub struct Token {
    /// Kind of the token, such as identifier, number or `{`.
    pub kind: TokenKind,
    /// Source text. Always set for identifiers, keywords, numbers, strings (with quotes) and unknown characters.
    pub text: Name,
    /// Position in the user's source; for tokens from a macro's body, the use of the macro.
    pub span: Span,
    /// Whether white space or a comment precedes the token.
    pub space_before: bool,
    /// Whether the token is the first of its line.
    pub first_on_line: bool,
    /// Whether the identifier must not be expanded: it names a macro whose expansion it comes from.
    pub no_expand: bool,
}

macro_rules! tokens {
    (
        punctuation { $($punct:ident = $text:literal,)* }
        keywords { $($keyword:ident = $word:literal,)* }
    ) => {
        /// Kinds of tokens: one for each keyword and punctuation mark, and those below.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum TokenKind {
            /// A name that is not a keyword.
            Ident,
            /// A number: text that begins with a digit; the parser checks its form.
            Number,
            /// A string literal; the token's text includes the quotes.
            String,
            /// A string literal without its closing quote on the same line.
            OpenString,
            /// A character that P4 does not use.
            Unknown,
            /// The end of the program; the last token of every program.
            End,
            $(#[doc = concat!("The token `", $text, "`.")] $punct,)*
            $(#[doc = concat!("The keyword `", $word, "`.")] $keyword,)*
        }

        impl TokenKind {
            /// Source text of the kind; a description for kinds with several texts, such as `identifier`.
            pub fn as_str(self) -> &'static str {
                match self {
                    TokenKind::Ident => "identifier",
                    TokenKind::Number => "number",
                    TokenKind::String | TokenKind::OpenString => "string",
                    TokenKind::Unknown => "character",
                    TokenKind::End => "end of file",
                    $(TokenKind::$punct => $text,)*
                    $(TokenKind::$keyword => $word,)*
                }
            }

            /// The kind of the keyword with this text; `None` for other words.
            pub fn keyword(text: &str) -> Option<TokenKind> {
                match text {
                    $($word => Some(TokenKind::$keyword),)*
                    _ => None,
                }
            }
        }
    };
}

tokens! {
    punctuation {
        LParen = "(", RParen = ")", LBracket = "[", RBracket = "]", LBrace = "{", RBrace = "}",
        InvalidHeader = "{#}",
        Semicolon = ";", Colon = ":", Comma = ",", Question = "?", At = "@", Dot = ".", Range = "..", Dots = "...",
        Assign = "=", PlusAssign = "+=", MinusAssign = "-=", MulAssign = "*=", DivAssign = "/=", ModAssign = "%=",
        AndAssign = "&=", OrAssign = "|=", XorAssign = "^=", ShlAssign = "<<=", AddSatAssign = "|+|=", SubSatAssign = "|-|=",
        Plus = "+", Minus = "-", Mul = "*", Div = "/", Mod = "%", AddSat = "|+|", SubSat = "|-|", Concat = "++",
        Shl = "<<", Lt = "<", Gt = ">", Le = "<=", Ge = ">=", EqEq = "==", Ne = "!=",
        And = "&", Or = "|", Xor = "^", AndAnd = "&&", OrOr = "||", Mask = "&&&", Not = "!", Tilde = "~",
        Hash = "#", HashHash = "##",
    }
    keywords {
        Abstract = "abstract", Action = "action", Actions = "actions", Apply = "apply", Bool = "bool", Bit = "bit",
        Break = "break", Const = "const", Continue = "continue", Control = "control", Default = "default", Else = "else",
        Entries = "entries", Enum = "enum", Error = "error", Exit = "exit", Extern = "extern", False = "false", For = "for",
        Header = "header", HeaderUnion = "header_union", If = "if", In = "in", Inout = "inout", Int = "int", Key = "key",
        List = "list", MatchKind = "match_kind", Out = "out", Package = "package", Parser = "parser", Priority = "priority",
        Return = "return", Select = "select", State = "state", StringType = "string", Struct = "struct", Switch = "switch",
        Table = "table", This = "this", Transition = "transition", True = "true", Tuple = "tuple", Type = "type",
        Typedef = "typedef", ValueSet = "value_set", Varbit = "varbit", Void = "void", Underscore = "_",
    }
}

impl TokenKind {
    /// Whether the token can be a name: an identifier, or a contextual keyword, which is reserved only within its construct
    /// (`nonTypeName` and `name` of the grammar).
    pub fn is_name(self) -> bool {
        matches!(
            self,
            TokenKind::Ident
                | TokenKind::Actions
                | TokenKind::Apply
                | TokenKind::Entries
                | TokenKind::Key
                | TokenKind::List
                | TokenKind::Priority
                | TokenKind::State
                | TokenKind::Type
        )
    }

    /// The binary operator of a compound assignment such as `+=`; `None` for other tokens. `>>=` is two tokens.
    pub fn compound_assignment(self) -> Option<BinaryOp> {
        let op = match self {
            TokenKind::PlusAssign => BinaryOp::Add,
            TokenKind::MinusAssign => BinaryOp::Sub,
            TokenKind::MulAssign => BinaryOp::Mul,
            TokenKind::DivAssign => BinaryOp::Div,
            TokenKind::ModAssign => BinaryOp::Mod,
            TokenKind::AndAssign => BinaryOp::BitAnd,
            TokenKind::OrAssign => BinaryOp::BitOr,
            TokenKind::XorAssign => BinaryOp::BitXor,
            TokenKind::ShlAssign => BinaryOp::Shl,
            TokenKind::AddSatAssign => BinaryOp::AddSat,
            TokenKind::SubSatAssign => BinaryOp::SubSat,
            _ => return None,
        };
        Some(op)
    }
}
