// Reference 4 in Rust: the same three endpoints with axum on tokio's multi-threaded runtime.
use axum::{
    extract::{Path, Query},
    http::header::CONTENT_TYPE,
    response::IntoResponse,
    routing::get,
    Json, Router,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Hello {
    hello: &'static str,
}

#[derive(Deserialize)]
struct User {
    name: Option<String>,
}

async fn json() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json; charset=utf-8")], Json(Hello { hello: "world" }))
}

async fn user(Path(id): Path<String>, Query(user): Query<User>) -> String {
    match user.name {
        Some(name) => format!("{id} {name}"),
        None => id,
    }
}

#[tokio::main]
async fn main() {
    let (mut host, mut port) = ("127.0.0.1".to_string(), "3000".to_string());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match (word.as_str(), words.next()) {
            ("--host", Some(value)) => host = value,
            ("--port", Some(value)) => port = value,
            _ => {
                eprintln!("usage: hello [--host ADDRESS] [--port N]");
                std::process::exit(2);
            }
        }
    }
    let app = Router::new()
        .route("/", get(|| async { "hello world" }))
        .route("/json", get(json))
        .route("/users/{id}", get(user));
    let listener = match tokio::net::TcpListener::bind(format!("{host}:{port}")).await {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("hello: can't listen on {host}:{port}: {error}");
            std::process::exit(1);
        }
    };
    axum::serve(listener, app).await.unwrap();
}
