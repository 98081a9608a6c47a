//! How a value is read from a file, a variable or a flag, and written again.

use std::ffi::OsString;
use std::path::Path;

use crate::config::keys::shown::Shown;

/// A value as it was given, before its key says what it must be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Given {
    /// A string of a file, its variables replaced.
    Text(String),
    /// A whole number of a file.
    Whole(i64),
    /// A number of a file.
    Number(f64),
    /// A list of strings of a file.
    List(Vec<String>),
    /// What no key takes.
    Other,
    /// What a variable or a flag holds; the key decides what it is.
    Plain(OsString),
}

/// Why a value is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// It is not what the key takes.
    NotThis,
    /// It is no text.
    NotText,
    /// Something else is wrong with it, as the text says.
    Because(String),
}

impl Given {
    /// The text of a string, or of a variable or flag.
    pub(crate) fn text(self) -> Result<String, Bad> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Plain(text) => text.into_string().map_err(|_| Bad::NotText),
            Self::Whole(_) | Self::Number(_) | Self::List(_) | Self::Other => Err(Bad::NotThis),
        }
    }

    /// A whole number within these bounds.
    pub(crate) fn whole(self, least: u64, most: u64) -> Result<u64, Bad> {
        let number = match self {
            Self::Whole(number) => u64::try_from(number).map_err(|_| Bad::NotThis)?,
            Self::Plain(text) => {
                text.into_string().map_err(|_| Bad::NotText)?.trim().parse().map_err(|_| Bad::NotThis)?
            }
            Self::Text(_) | Self::Number(_) | Self::List(_) | Self::Other => return Err(Bad::NotThis),
        };
        if (least..=most).contains(&number) { Ok(number) } else { Err(Bad::NotThis) }
    }

    /// A number within these bounds.
    pub(crate) fn number(self, least: f64, most: f64) -> Result<f64, Bad> {
        let number = match self {
            Self::Number(number) => number,
            Self::Whole(number) => number as f64,
            Self::Plain(text) => {
                text.into_string().map_err(|_| Bad::NotText)?.trim().parse().map_err(|_| Bad::NotThis)?
            }
            Self::Text(_) | Self::List(_) | Self::Other => return Err(Bad::NotThis),
        };
        // NaN is in no range.
        if (least..=most).contains(&number) { Ok(number) } else { Err(Bad::NotThis) }
    }

    /// Strings: a list of a file, or separated by commas.
    pub(crate) fn list(self) -> Result<Vec<String>, Bad> {
        match self {
            Self::List(texts) => Ok(texts),
            Self::Plain(text) => {
                let text = text.into_string().map_err(|_| Bad::NotText)?;
                Ok(text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect())
            }
            Self::Text(_) | Self::Whole(_) | Self::Number(_) | Self::Other => Err(Bad::NotThis),
        }
    }

    /// Whether it is this word.
    pub(crate) fn is(&self, word: &str) -> bool {
        match self {
            Self::Text(text) => text == word,
            Self::Plain(text) => text.to_str().is_some_and(|text| text.trim() == word),
            Self::Whole(_) | Self::Number(_) | Self::List(_) | Self::Other => false,
        }
    }

    /// One of these words.
    pub(crate) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Bad> {
        match (words.iter().find(|(word, _)| self.is(word)), self) {
            (Some((_, value)), _) => Ok(*value),
            (None, Self::Plain(text)) if text.to_str().is_none() => Err(Bad::NotText),
            (None, _) => Err(Bad::NotThis),
        }
    }
}

/// How values of one type are read and shown.
pub(crate) struct Codec<T> {
    /// What it takes, for people.
    pub(crate) takes: &'static str,
    /// Reads a value; paths are relative to the folder.
    pub(crate) read: fn(Given, Option<&Path>) -> Result<T, Bad>,
    /// The value as `config show` writes it.
    pub(crate) show: fn(&T) -> Shown,
}
