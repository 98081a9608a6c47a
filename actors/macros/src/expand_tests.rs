use std::collections::BTreeSet;

use proc_macro2::TokenTree;
use quote::quote;

use super::*;

fn refused(options: TokenStream, item: TokenStream) -> String {
    tool(options, item).unwrap_err().to_string()
}

/// Fails unless it is refused with a text that has this in it.
fn assert_refused(item: TokenStream, why: &str) {
    let shown = item.to_string();
    let said = refused(TokenStream::new(), item);
    assert!(said.contains(why), "{shown}: {said}");
}

#[test]
fn what_cannot_be_a_tool_is_refused_with_what_to_do() {
    assert_refused(
        quote!(
            #[doc = " A."]
            fn add(a: i64) {}
        ),
        "write `async` before `fn`",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            struct Add;
        ),
        "`#[tool]` goes on an `async fn`",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(a: i64);
        ),
        "`#[tool]` goes on an `async fn` with a body",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async unsafe fn add() {}
        ),
        "cannot be `unsafe`",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async extern "C" fn add() {}
        ),
        "leave `extern` out",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add<T>(a: T) {}
        ),
        "cannot be generic: name the types",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(a: i64)
            where
                i64: Copy,
            {
            }
        ),
        "cannot be generic",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add() -> ! {
                loop {}
            }
        ),
        "must come to an end",
    );
    assert_refused(
        quote!(
            async fn add(a: i64) {}
        ),
        "a tool needs a doc comment",
    );
    assert_refused(
        quote!(
            #[doc = "  "]
            async fn add(a: i64) {}
        ),
        "a tool needs a doc comment",
    );
}

#[test]
fn parameters_that_cannot_be_arguments_are_refused_with_what_to_do() {
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(&self, a: i64) {}
        ),
        "a tool has no `self`",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add((a, b): (i64, i64)) {}
        ),
        "write `name: Type` here",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(_: i64) {}
        ),
        "write `name: Type` here",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(ref a: i64) {}
        ),
        "write `name: Type` here",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(a: &str) {}
        ),
        "take `String`",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(a: &mut ToolContext) {}
        ),
        "the function owns them",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(a: impl Copy) {}
        ),
        "name the type",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(a: ToolContext, b: &ToolContext) {}
        ),
        "one `ToolContext`",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(#[doc = " C."] a: ToolContext) {}
        ),
        "no argument of the call",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(#[cfg(test)] a: i64) {}
        ),
        "doc comments, `#[serde(…)]`",
    );
}

#[test]
fn states_that_cannot_be_are_refused_with_what_to_do() {
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(pool: &State<Pool>) {}
        ),
        "take the `State<T>` itself",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(State(pool): State<impl Pool>) {}
        ),
        "name the type that `.state(…)` is called with",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(State(pool): State<_>) {}
        ),
        "name the type that `.state(…)` is called with",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(State(pool): State<Pool, Label>) {}
        ),
        "a state has one type",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(State(pool): State) {}
        ),
        "a state has one type",
    );
    assert_refused(
        quote!(
            #[doc = " A."]
            async fn add(#[doc = " C."] State(pool): State<Pool>) {}
        ),
        "nothing is said about it to the model",
    );
    // One of the program's own.
    assert!(
        tool(
            TokenStream::new(),
            quote!(
                #[doc = " A."]
                async fn add(state: State) {}
            )
        )
        .is_ok()
    );
}

#[test]
fn options_that_cannot_be_are_refused_with_what_to_do() {
    for (options, why) in [
        (quote!(nmae = "x"), "`#[tool]` takes `name = \"…\"`, `read_only`"),
        (quote!(name = "a b"), "`a b` cannot name a tool: use 1 to 64 letters"),
        (quote!(name = ""), "cannot name a tool"),
        (quote!(name = "a", name = "b"), "this is said twice"),
        (quote!(read_only, idempotent), "say `read_only` or `idempotent`"),
        (quote!(timeout_secs = 0), "at least 1"),
        (quote!(timeout_secs = 5, timeout_secs = 6), "this is said twice"),
        (quote!(ask = " "), "what a person is asked to allow"),
        (quote!(crate = "not a path"), "unexpected token"),
    ] {
        let shown = options.to_string();
        let said = refused(
            options,
            quote!(
                #[doc = " A."]
                async fn add(a: i64) {}
            ),
        );
        assert!(said.contains(why), "{shown}: {said}");
    }
    let said = refused(
        TokenStream::new(),
        quote!(
            #[doc = " A."]
            async fn größe() {}
        ),
    );
    assert!(said.contains("`größe` cannot name a tool") && said.contains("#[tool(name = "), "{said}");
}

/// The first names of all paths of two names and more.
fn roots(tokens: TokenStream) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    let is_pair = |at: usize| is_colon(at) && is_colon(at + 1);
    let is_name = |at: usize| matches!(tokens.get(at), Some(TokenTree::Ident(_)));
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(roots(group.stream())),
            // After `::` it is a first name only if nothing is before that: `::core`, but not `stage::Tool` nor `<T>::f`.
            TokenTree::Ident(name) if is_pair(at + 1) => {
                let closes = |at: usize| matches!(&tokens[at], TokenTree::Punct(punct) if punct.as_char() == '>');
                let inner =
                    at >= 3 && is_pair(at - 2) && (is_name(at - 3) || closes(at - 3) && !is_arrow(&tokens, at - 3));
                if !inner {
                    found.insert(name.to_string());
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    found
}

fn is_arrow(tokens: &[TokenTree], at: usize) -> bool {
    at > 0 && matches!(&tokens[at - 1], TokenTree::Punct(punct) if punct.as_char() == '-')
}

#[test]
fn the_expansion_names_no_crate_but_the_one_it_is_told() {
    let item = quote! {
        #[doc = " A."]
        pub async fn add(State(p): State<Pool>, #[doc = " B."] a: i64, ctx: ToolContext) -> Result<String, ToolError> { body }
    };
    let every = quote!(crate = "stage", name = "x", idempotent, timeout_secs = 5, ask = "do it");
    let expansion = tool(every, item.clone()).unwrap();
    let known = ["clippy", "core", "stage", "std"].map(str::to_owned);
    assert_eq!(roots(expansion.clone()), BTreeSet::from(known));
    assert!(!expansion.to_string().contains("playhouse ::"), "{expansion}");
    let plain = tool(TokenStream::new(), item).unwrap().to_string();
    assert!(plain.contains(":: playhouse :: __private :: Tool"), "{plain}");
}

#[test]
fn methods_that_cannot_be_tools_are_refused_with_what_to_do() {
    let in_block = |method: TokenStream| quote!(impl Clerk { #[doc = " A."] #[tool] #method });
    assert_refused(
        in_block(quote!(
            async fn find(name: String) {}
        )),
        "takes `&self`",
    );
    assert_refused(
        in_block(quote!(
            async fn find(&mut self, name: String) {}
        )),
        "takes `&self`",
    );
    assert_refused(
        in_block(quote!(
            async fn find(self, name: String) {}
        )),
        "takes `&self`",
    );
    assert_refused(
        in_block(quote!(
            fn find(&self, name: String) {}
        )),
        "write `async` before `fn`",
    );
    assert_refused(
        in_block(quote!(
            async fn find(&self, name: &str) {}
        )),
        "take `String`",
    );
    assert_refused(
        in_block(quote!(
            #[tool]
            async fn find(&self) {}
        )),
        "this is said twice",
    );
    assert_refused(quote!(impl Clerk { #[tool] async fn find(&self) {} }), "a tool needs a doc comment");
    assert_refused(quote!(impl Clerk { async fn find(&self) {} }), "no method of this block is a tool");
    assert_refused(
        quote!(
            impl<T> Clerk<T> {
                #[tool]
                async fn find(&self) {}
            }
        ),
        "cannot be generic",
    );
    assert_refused(quote!(impl Find for Clerk { #[tool] async fn find(&self) {} }), "methods of a type's own");
    let said = refused(
        quote!(read_only),
        in_block(quote!(
            async fn find(&self) {}
        )),
    );
    assert!(said.contains("above the method that it is about"), "{said}");
}

#[test]
fn the_expansion_of_methods_names_no_crate_but_the_one_it_is_told() {
    let item = quote! {
        impl Clerk {
            pub fn new() -> Self { body }
            #[doc = " A."]
            #[tool(name = "x", idempotent, timeout_secs = 5, ask = "do it")]
            pub async fn add(&self, #[doc = " B."] a: i64, p: State<Pool>, ctx: ToolContext) -> Result<String, ToolError> { body }
        }
    };
    let expansion = tool(quote!(crate = "stage"), item).unwrap();
    assert_eq!(roots(expansion.clone()), BTreeSet::from(["clippy", "core", "stage", "std"].map(str::to_owned)));
    assert!(!expansion.to_string().contains("# [tool"), "{expansion}");
}
