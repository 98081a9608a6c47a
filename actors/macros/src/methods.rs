//! What an `impl` block becomes: itself, and for each method marked `#[tool]` a tool that holds the value.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, ImplItem, ImplItemFn, ItemFn, ItemImpl, Meta, Result};

use crate::expand::implementation;
use crate::function::Function;
use crate::options::Options;

/// The block, with a method `tools` beside those it has.
pub(crate) fn tools(mut block: ItemImpl, options: &Options) -> Result<TokenStream> {
    if let Some((.., path, _)) = &block.trait_ {
        return Err(Error::new(
            path.span(),
            "tools are methods of a type's own: put `#[tool]` on an `impl Type` block",
        ));
    }
    if !block.generics.params.is_empty() || block.generics.where_clause.is_some() {
        let text = "a tool has one schema, so the type that holds it cannot be generic: name the types";
        return Err(Error::new(block.generics.span(), text));
    }
    options.only_crate(block.self_ty.span())?;
    let holder = &block.self_ty;
    let krate = &options.krate;
    let private = quote!(#krate::__private);
    let (mut kept, mut written, mut made) = (Vec::new(), Vec::new(), Vec::new());
    for item in std::mem::take(&mut block.items) {
        let (method, marks) = match item {
            ImplItem::Fn(mut method) => {
                let (marks, others) = std::mem::take(&mut method.attrs).into_iter().partition(is_mark);
                method.attrs = others;
                (method, marks)
            }
            other => {
                kept.push(other.into_token_stream());
                continue;
            }
        };
        let marks: Vec<Attribute> = marks;
        let Some(mark) = marks.first() else {
            kept.push(method.into_token_stream());
            continue;
        };
        if let Some(again) = marks.get(1) {
            return Err(Error::new(again.span(), "this is said twice: say it once"));
        }
        let said = match &mark.meta {
            Meta::List(list) => list.tokens.clone(),
            Meta::Path(_) | Meta::NameValue(_) => TokenStream::new(),
        };
        let own = Options { krate: krate.clone(), ..Options::read(said)? };
        let function = read(method, &own)?;
        let (docs, item) = (&function.docs, &function.item);
        // What leaves the method out leaves its tool out.
        let gates: Vec<_> = item.attrs.iter().filter(|it| it.path().is_ident("cfg")).collect();
        let name = &item.sig.ident;
        let tool = format_ident!("__PlayhouseTool{}", written.len());
        let implementation =
            implementation(&function, &own, &quote!(#tool), &quote!(<#holder>::#name), Some(quote!(&self.0)));
        kept.push(quote!(#(#docs)* #item));
        written.push(quote! {
            #(#gates)*
            struct #tool(::std::sync::Arc<#holder>);

            #(#gates)*
            const _: () = {
                #implementation
            };
        });
        made.push(quote! {
            #(#gates)*
            __tools.push(::std::sync::Arc::new(#tool(::std::sync::Arc::clone(&__holder))));
        });
    }
    if written.is_empty() {
        let text = "no method of this block is a tool: write `#[tool]` above each `async fn` with `&self` that is one";
        return Err(Error::new(block.self_ty.span(), text));
    }
    let (attributes, unsafety) = (&block.attrs, &block.unsafety);
    Ok(quote! {
        #(#attributes)*
        #unsafety impl #holder {
            #(#kept)*
        }

        const _: () = {
            #(#written)*

            impl #holder {
                /// Its tools, for `AgentBuilder::tools`. They share this value.
                pub fn tools(self) -> ::std::vec::Vec<::std::sync::Arc<dyn #private::Tool>> {
                    let __holder = ::std::sync::Arc::new(self);
                    let mut __tools = ::std::vec::Vec::<::std::sync::Arc<dyn #private::Tool>>::new();
                    #(#made)*
                    __tools
                }
            }
        };
    })
}

fn is_mark(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "tool")
}

/// A method as a function; its `&self` is put back once the arguments are read.
fn read(method: ImplItemFn, options: &Options) -> Result<Function> {
    let (attributes, vis, mut sig, block) = (method.attrs, method.vis, method.sig, method.block);
    let mut inputs = sig.inputs.into_iter();
    let receiver = match inputs.next() {
        Some(FnArg::Receiver(receiver)) if receiver.to_token_stream().to_string() == "& self" => receiver,
        other => {
            let text = "a tool of a type takes `&self`: several calls may run at once";
            return Err(Error::new(other.map_or(sig.ident.span(), |other| other.span()), text));
        }
    };
    sig.inputs = inputs.collect();
    let item: ItemFn = syn::parse2(quote!(#(#attributes)* #vis #sig #block))?;
    let mut function = Function::read(item, options)?;
    function.item.sig.inputs.insert(0, FnArg::Receiver(receiver));
    Ok(function)
}
