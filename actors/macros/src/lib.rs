//! `#[tool]`, which `playhouse` re-exports: an `async fn` with doc comments becomes a tool.
//!
//! Pure: tokens in, tokens out. The expansion names nothing but `::playhouse` (or what `crate = "…"` says), so its users
//! depend on nothing else.

mod expand;
mod function;
mod methods;
mod options;

use proc_macro::TokenStream;

/// Makes a tool of an `async fn`, or of methods of an `impl` block. See `playhouse::tool`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    match expand::tool(options.into(), item.into()) {
        Ok(expansion) => expansion.into(),
        Err(error) => error.into_compile_error().into(),
    }
}
