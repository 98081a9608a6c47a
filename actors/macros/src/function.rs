//! What a function must be to become a tool.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, Ident, ItemFn, Lit, Meta, Pat, PathArguments, Result,
    ReturnType, Safety, Type,
};

use crate::options::Options;

/// A function that can become a tool.
pub(crate) struct Function {
    /// The tool's name in calls.
    pub(crate) name: String,
    /// Its doc comment, in pieces: text, or an expression such as `include_str!("…")`.
    pub(crate) description: Vec<Expr>,
    /// Its parameters, in order.
    pub(crate) parameters: Vec<Parameter>,
    /// The function, without what only the macro reads.
    pub(crate) item: ItemFn,
    /// Its doc attributes, which the struct gets too.
    pub(crate) docs: Vec<Attribute>,
}

/// What is passed to the function at one place.
pub(crate) enum Parameter {
    /// An argument of the call.
    Argument {
        name: Ident,
        /// What its field gets: doc comments, `serde` and `schemars`.
        attributes: Vec<Attribute>,
        ty: Box<Type>,
    },
    /// The `ToolContext`.
    Context(Passing),
    /// A `State<T>`, with this `T`.
    State(Box<Type>),
}

/// How the context is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    Value,
    Reference,
}

impl Function {
    /// Looks at a function; what cannot be a tool is an error that says what to do.
    pub(crate) fn read(mut item: ItemFn, options: &Options) -> Result<Self> {
        check_signature(&item)?;
        let (docs, others) = std::mem::take(&mut item.attrs).into_iter().partition(|it| it.path().is_ident("doc"));
        item.attrs = others;
        let name = match &options.name {
            Some(name) => checked_name(name.value(), name.span())?,
            None => checked_name(item.sig.ident.unraw().to_string(), item.sig.ident.span())?,
        };
        let description = description(&docs);
        if description.is_empty() {
            let text = "a tool needs a doc comment: it tells the model what the tool does and when to use it";
            return Err(Error::new(item.sig.ident.span(), text));
        }
        let parameters = item.sig.inputs.iter_mut().map(parameter).collect::<Result<Vec<_>>>()?;
        if parameters.iter().filter(|it| matches!(it, Parameter::Context(_))).count() > 1 {
            return Err(Error::new(item.sig.inputs.span(), "one `ToolContext` is enough: leave the others out"));
        }
        Ok(Self { name, description, parameters, item, docs })
    }
}

fn check_signature(item: &ItemFn) -> Result<()> {
    let sig = &item.sig;
    if sig.asyncness.is_none() {
        let text = "a tool is an `async fn`: write `async` before `fn`; work that blocks goes to a thread of its own \
                    with `playhouse::tools::blocking`";
        return Err(Error::new(sig.fn_token.span, text));
    }
    if let Some(constness) = &sig.constness {
        return Err(Error::new(constness.span, "a tool is a plain `async fn`: leave `const` out"));
    }
    match &sig.safety {
        Safety::Default => {}
        Safety::Safe(token) => return Err(Error::new(token.span, "a tool is a plain `async fn`: leave `safe` out")),
        Safety::Unsafe(token) => {
            return Err(Error::new(token.span, "a model calls a tool with any arguments, so it cannot be `unsafe`"));
        }
    }
    if let Some(abi) = &sig.abi {
        return Err(Error::new(abi.span(), "a tool is a plain `async fn`: leave `extern` out"));
    }
    if !sig.generics.params.is_empty() || sig.generics.where_clause.is_some() {
        let text = "a tool has one schema, so its function cannot be generic: name the types";
        return Err(Error::new(sig.generics.span(), text));
    }
    if let Some(variadic) = &sig.variadic {
        return Err(Error::new(variadic.span(), "a tool takes named arguments: take a `Vec` instead"));
    }
    match &sig.output {
        ReturnType::Type(_, ty) if matches!(**ty, Type::Never(_)) => {
            Err(Error::new(ty.span(), "a tool must come to an end: give back what the model is to read"))
        }
        ReturnType::Type(..) | ReturnType::Default => Ok(()),
    }
}

/// A name that every provider takes.
fn checked_name(name: String, span: Span) -> Result<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(name);
    }
    let rule = "use 1 to 64 letters, digits, `_` or `-`";
    let hint = "such as `#[tool(name = \"look_up\")]`";
    Err(Error::new(span, format!("`{name}` cannot name a tool: {rule}, {hint}")))
}

/// The pieces of a doc comment, or nothing if it says nothing.
fn description(docs: &[Attribute]) -> Vec<Expr> {
    let mut text: Vec<String> = Vec::new();
    let mut pieces: Vec<Expr> = Vec::new();
    let flush = |text: &mut Vec<String>, pieces: &mut Vec<Expr>| {
        let joined = std::mem::take(text).join("\n");
        if !joined.trim().is_empty() {
            let joined = joined.trim();
            let gap = if pieces.is_empty() { "" } else { "\n" };
            let literal = format!("{gap}{joined}");
            pieces.push(syn::parse_quote!(#literal));
        }
    };
    for attribute in docs {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => {
                text.extend(line.value().lines().map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()));
                if line.value().is_empty() {
                    text.push(String::new());
                }
            }
            other => {
                flush(&mut text, &mut pieces);
                if !pieces.is_empty() {
                    pieces.push(syn::parse_quote!("\n"));
                }
                pieces.push(other.clone());
            }
        }
    }
    flush(&mut text, &mut pieces);
    pieces
}

/// Reads a parameter, and takes from it the attributes that only its field understands.
fn parameter(input: &mut FnArg) -> Result<Parameter> {
    let typed = match input {
        FnArg::Typed(typed) => typed,
        FnArg::Receiver(receiver) => {
            let text = "a tool has no `self`, unless `#[tool]` stands on the whole `impl` block too";
            return Err(Error::new(receiver.span(), text));
        }
    };
    if let Some(passing) = context(&typed.ty) {
        if let Some(attribute) = typed.attrs.first() {
            let text = "the context is no argument of the call: nothing is said about it to the model";
            return Err(Error::new(attribute.span(), text));
        }
        return Ok(Parameter::Context(passing));
    }
    if let Some(value) = state(&typed.pat, &typed.ty)? {
        if let Some(attribute) = typed.attrs.first() {
            let text = "a state is no argument of the call: nothing is said about it to the model";
            return Err(Error::new(attribute.span(), text));
        }
        return Ok(Parameter::State(value));
    }
    let name = match &*typed.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => pat.ident.clone(),
        other => {
            let text = "an argument has a name: write `name: Type` here and take it apart in the body";
            return Err(Error::new(other.span(), text));
        }
    };
    match &*typed.ty {
        Type::Reference(reference) => {
            let text = "arguments are decoded from the call, so the function owns them: take `String`, `Vec<T>` or the \
                        type itself";
            return Err(Error::new(reference.span(), text));
        }
        Type::ImplTrait(hidden) => {
            let text = "a tool has one schema, so its function cannot be generic: name the type";
            return Err(Error::new(hidden.span(), text));
        }
        _ => {}
    }
    let attributes = std::mem::take(&mut typed.attrs);
    let known = |it: &&Attribute| ["doc", "serde", "schemars"].iter().any(|name| it.path().is_ident(name));
    if let Some(attribute) = attributes.iter().find(|it| !known(it)) {
        let text = "a parameter of a tool takes doc comments, `#[serde(…)]` and `#[schemars(…)]` only";
        return Err(Error::new(attribute.span(), text));
    }
    Ok(Parameter::Argument { name, attributes, ty: typed.ty.clone() })
}

/// How the context is passed, if this is its type.
fn context(ty: &Type) -> Option<Passing> {
    match ty {
        Type::Path(path) if path.qself.is_none() => {
            let last = path.path.segments.last()?;
            (last.ident == "ToolContext").then_some(Passing::Value)
        }
        Type::Reference(reference) if reference.mutability.is_none() => {
            context(&reference.elem).map(|_| Passing::Reference)
        }
        _ => None,
    }
}

/// What it is a state of, if this is the type of one: `State<T>`. A type that is called `State` and nothing more is one of
/// the program's own, unless it is taken apart as a state is.
fn state(pat: &Pat, ty: &Type) -> Result<Option<Box<Type>>> {
    let path = match ty {
        Type::Path(path) if path.qself.is_none() => path,
        Type::Reference(reference) => {
            return match state(pat, &reference.elem)? {
                Some(_) => Err(Error::new(reference.span(), "take the `State<T>` itself: it is a cheap clone")),
                None => Ok(None),
            };
        }
        _ => return Ok(None),
    };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "State") else { return Ok(None) };
    let arguments: Vec<_> = match (&last.arguments, pat) {
        (PathArguments::AngleBracketed(arguments), _) => arguments.args.iter().collect(),
        (PathArguments::None, Pat::TupleStruct(_)) => Vec::new(),
        (PathArguments::None | PathArguments::Parenthesized(_), _) => return Ok(None),
    };
    match arguments.as_slice() {
        [GenericArgument::Type(hidden @ (Type::ImplTrait(_) | Type::Infer(_)))] => {
            let text = "a state is found by its type: name the type that `.state(…)` is called with";
            Err(Error::new(hidden.span(), text))
        }
        [GenericArgument::Type(value)] => Ok(Some(Box::new(value.clone()))),
        _ => Err(Error::new(last.span(), "a state has one type: write `State<T>`, such as `State<Pool>`")),
    }
}
