//! GET /data: one string out of Redis as application/json. Usage: redis-json --port N
//! REDIS_URL names the server: unix:///path or redis://host:port.
use poem::{get, handler, http::StatusCode, listener::TcpListener, web::Data, EndpointExt, Response,
           Route, Server};
use redis::aio::MultiplexedConnection;

#[handler]
async fn data(Data(redis): Data<&MultiplexedConnection>) -> Response {
    let mut redis = redis.clone();
    let value: redis::RedisResult<Option<Vec<u8>>> =
        redis::cmd("GET").arg("doc").query_async(&mut redis).await;
    match value {
        Ok(Some(doc)) => Response::builder().content_type("application/json").body(doc),
        Ok(None) => StatusCode::NOT_FOUND.into(),
        Err(_) => StatusCode::BAD_GATEWAY.into(),
    }
}

#[handler]
fn health() -> Response {
    Response::builder().content_type("application/json").body("{\"ok\":true}")
}

fn option(name: &str, default: &str) -> String {
    let args: Vec<String> = std::env::args().collect();
    args.windows(2).find(|pair| pair[0] == name).map_or(default.into(), |pair| pair[1].clone())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let redis = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let app = Route::new().at("/data", get(data)).at("/health", get(health)).data(redis);
    let address = format!("{}:{}", option("--host", "127.0.0.1"), option("--port", "3000"));
    Server::new(TcpListener::bind(address))
        .run_with_graceful_shutdown(app, async { wait_for_sigterm().await }, None)
        .await?;
    Ok(())
}

async fn wait_for_sigterm() {
    use tokio::signal::unix::{signal, SignalKind};
    if let Ok(mut terminate) = signal(SignalKind::terminate()) {
        terminate.recv().await;
    }
}
