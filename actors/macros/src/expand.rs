//! What a function becomes: a unit struct of its name that is a tool. What a method becomes is in `methods`.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{Error, Item, ItemFn, Result};

use crate::function::{Function, Parameter, Passing};
use crate::methods;
use crate::options::{Effect, Options};

/// What the attribute and the function or the `impl` below it become.
pub(crate) fn tool(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::read(options)?;
    if let Ok(Item::Impl(block)) = syn::parse2(item.clone()) {
        return methods::tools(block, &options);
    }
    let item: ItemFn = syn::parse2(item).map_err(|error| {
        Error::new(
            error.span(),
            format!("`#[tool]` goes on an `async fn` with a body, or on an `impl` block ({error})"),
        )
    })?;
    Ok(write(Function::read(item, &options)?, &options))
}

fn write(function: Function, options: &Options) -> TokenStream {
    let ItemFn { attrs, vis, sig, block, .. } = &function.item;
    let docs = &function.docs;
    // What leaves the function out leaves everything out.
    let gates: Vec<_> = attrs.iter().filter(|it| it.path().is_ident("cfg")).collect();
    let (tool, inputs, output) = (&sig.ident, &sig.inputs, &sig.output);
    let implementation = implementation(&function, options, &quote!(#tool), &quote!(<#tool>::call), None);
    quote! {
        #(#docs)*
        #(#gates)*
        #[allow(non_camel_case_types)]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug, ::core::default::Default)]
        #vis struct #tool;

        #(#gates)*
        impl #tool {
            /// The function itself, to be called without a model.
            #(#attrs)*
            #vis async fn call(#inputs) #output #block
        }

        #(#gates)*
        const _: () = {
            #implementation
        };
    }
}

/// The arguments of a call, and `Tool` for a type: what is called, with what before the arguments.
pub(crate) fn implementation(
    function: &Function,
    options: &Options,
    tool: &TokenStream,
    called: &TokenStream,
    first: Option<TokenStream>,
) -> TokenStream {
    let Function { name, description, parameters, .. } = function;
    let krate = &options.krate;
    let private = quote!(#krate::__private);
    let (serde, schemars) = (quote!(#private::serde), quote!(#private::schemars));
    let (serde_path, schemars_path) = (serde.to_string(), schemars.to_string());
    // Beside the user's own names: it must not be one of them.
    let arguments = format_ident!("__PlayhouseArguments");

    let fields = parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Argument { name, attributes, ty } => Some(quote!(#(#attributes)* #name: #ty)),
        Parameter::Context(_) | Parameter::State(_) => None,
    });
    let held = |at: usize| format_ident!("__state{at}");
    let (places, values): (Vec<_>, Vec<_>) = parameters
        .iter()
        .enumerate()
        .filter_map(|(at, parameter)| match parameter {
            Parameter::State(value) => Some((held(at), value)),
            Parameter::Argument { .. } | Parameter::Context(_) => None,
        })
        .unzip();
    let states = (!values.is_empty()).then(|| {
        quote! {
            fn states(&self) -> ::std::vec::Vec<#private::StateType> {
                ::std::vec![#(#private::StateType::of::<#values>()),*]
            }
        }
    });
    let passed = first.into_iter().chain(parameters.iter().enumerate().map(|(at, parameter)| match parameter {
        Parameter::Argument { name, .. } => quote!(__arguments.#name),
        Parameter::Context(Passing::Value) => quote!(__context),
        Parameter::Context(Passing::Reference) => quote!(&__context),
        Parameter::State(_) => held(at).into_token_stream(),
    }));
    let effect = match options.effect {
        Effect::Once => quote!(#private::EffectClass::Once),
        Effect::Read => quote!(#private::EffectClass::Read),
        Effect::Idempotent => quote!(#private::idempotent(#name, __arguments)),
    };
    let timeout = options.timeout_secs.map(|seconds| {
        quote! {
            fn timeout(&self) -> ::core::time::Duration {
                ::core::time::Duration::from_secs(#seconds)
            }
        }
    });
    let ask = options.ask.as_ref().map(|reason| {
        quote! {
            fn needs_permission(&self, _: &#private::Value) -> ::core::option::Option<::std::string::String> {
                ::core::option::Option::Some(::std::string::String::from(#reason))
            }
        }
    });

    quote! {
        #[derive(#serde::Deserialize, #schemars::JsonSchema)]
        #[serde(crate = #serde_path, deny_unknown_fields)]
        #[schemars(crate = #schemars_path)]
        struct #arguments {
            #(#fields,)*
        }

        #[allow(clippy::all)]
        #[#private::async_trait]
        impl #private::Tool for #tool {
            fn name(&self) -> &str {
                #name
            }

            fn description(&self) -> &str {
                ::core::concat!(#(#description),*)
            }

            fn parameters_schema(&self) -> #private::Value {
                #private::schema::<#arguments>()
            }

            fn effect(&self, __arguments: &#private::Value) -> #private::EffectClass {
                #effect
            }

            #states

            #timeout

            #ask

            async fn execute(
                &self,
                __arguments: #private::Value,
                __context: #private::ToolContext,
            ) -> ::core::result::Result<#private::ToolResult, #private::ToolError> {
                use #private::{MayFail as _, NeverFails as _};
                let __arguments: #arguments = #private::decode(__arguments)?;
                #(let #places: #private::State<#values> = __context.state()?;)*
                let __answer = #called(#(#passed),*).await;
                (&__answer).playhouse_kind().result(__answer)
            }
        }
    }
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
