//! What stands in the parentheses of `#[tool(…)]`.

use proc_macro2::TokenStream;
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, Parser};
use syn::{Error, LitInt, LitStr, Path, Result};

/// What may be said, for whoever said something else.
const KNOWN: &str = "`name = \"…\"`, `read_only`, `idempotent`, `timeout_secs = 5`, `ask = \"…\"`, `crate = \"…\"`";

/// The options, as given.
pub(crate) struct Options {
    /// The name in tool calls, if not the function's.
    pub(crate) name: Option<LitStr>,
    /// What a crash between start and result means.
    pub(crate) effect: Effect,
    /// How long it may run.
    pub(crate) timeout_secs: Option<u64>,
    /// Why a person is asked first.
    pub(crate) ask: Option<LitStr>,
    /// Where `playhouse` is found.
    pub(crate) krate: Path,
}

/// An effect class that needs no words of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Not to be repeated.
    Once,
    /// Changes nothing, and may be repeated and run beside others.
    Read,
    /// Doing it twice with the same arguments is doing it once.
    Idempotent,
}

impl Options {
    /// Reads them; what is unknown, said twice or contradicts itself is an error.
    pub(crate) fn read(tokens: TokenStream) -> Result<Self> {
        let (mut name, mut effect, mut timeout, mut ask, mut krate) = (None, None, None, None, None);
        let parser = syn::meta::parser(|meta| {
            let said = meta.path.get_ident().map(ToString::to_string);
            match said.as_deref() {
                Some("name") => once(&mut name, &meta, value),
                Some("ask") => once(&mut ask, &meta, value),
                Some("timeout_secs") => once(&mut timeout, &meta, value),
                Some("crate") => once(&mut krate, &meta, |meta| value::<LitStr>(meta)?.parse::<Path>()),
                Some("read_only") => once_of_two(&mut effect, Effect::Read, &meta),
                Some("idempotent") => once_of_two(&mut effect, Effect::Idempotent, &meta),
                Some(_) | None => Err(meta.error(format!("`#[tool]` takes {KNOWN}"))),
            }
        });
        parser.parse2(tokens)?;
        if let Some(ask) = ask.as_ref().filter(|ask: &&LitStr| ask.value().trim().is_empty()) {
            return Err(Error::new(
                ask.span(),
                "`ask` says what a person is asked to allow, such as \"send a letter\"",
            ));
        }
        let krate = match krate {
            Some(krate) => krate,
            None => syn::parse_quote!(::playhouse),
        };
        let timeout_secs = timeout.as_ref().map(seconds).transpose()?;
        Ok(Self { name, effect: effect.unwrap_or(Effect::Once), timeout_secs, ask, krate })
    }
}

impl Options {
    /// Refuses what says something about one tool: the block they stand on has several.
    pub(crate) fn only_crate(&self, span: proc_macro2::Span) -> Result<()> {
        let Self { name, effect, timeout_secs, ask, krate: _ } = self;
        match (name, effect, timeout_secs, ask) {
            (None, Effect::Once, None, None) => Ok(()),
            _ => {
                Err(Error::new(span, "say this above the method that it is about; a block takes `crate = \"…\"` only"))
            }
        }
    }
}

fn value<T: Parse>(meta: &ParseNestedMeta<'_>) -> Result<T> {
    meta.value()?.parse()
}

fn once<T>(
    slot: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    read: impl FnOnce(&ParseNestedMeta<'_>) -> Result<T>,
) -> Result<()> {
    if slot.is_some() {
        return Err(meta.error("this is said twice: say it once"));
    }
    *slot = Some(read(meta)?);
    Ok(())
}

fn once_of_two(slot: &mut Option<Effect>, effect: Effect, meta: &ParseNestedMeta<'_>) -> Result<()> {
    if slot.is_some() {
        return Err(meta.error("say `read_only` or `idempotent`, and only once"));
    }
    *slot = Some(effect);
    Ok(())
}

fn seconds(literal: &LitInt) -> Result<u64> {
    match literal.base10_parse() {
        Ok(0) | Err(_) => Err(Error::new(literal.span(), "`timeout_secs` is a whole number of seconds, at least 1")),
        Ok(seconds) => Ok(seconds),
    }
}
