//! Owns: hyper on tokio's single-threaded runtime as a peer: the same responses as performance_test, without files and TLS.
//!
//!   hyper_server PORT http1|h2
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    body::Incoming,
    header::{HeaderValue, CONTENT_TYPE},
    service::service_fn,
    Request, Response, StatusCode,
};
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static LARGE: [u8; 100 * 1024] = [b'a'; 100 * 1024];

async fn answer(req: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, body) = match req.uri().path() {
        "/" => (
            StatusCode::OK,
            "text/plain",
            Bytes::from_static(b"Hello, World!"),
        ),
        "/large/100kb" => (
            StatusCode::OK,
            "application/octet-stream",
            Bytes::from_static(&LARGE),
        ),
        _ => (StatusCode::NOT_FOUND, "text/plain", Bytes::new()),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let port: u16 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .expect("usage: hyper_server PORT http1|h2");
    let http2 = std::env::args().nth(2).as_deref() == Some("h2");
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let io = hyper_util::rt::TokioIo::new(stream);
            let _ = if http2 {
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(io, service_fn(answer))
                    .await
            } else {
                hyper::server::conn::http1::Builder::new()
                    .pipeline_flush(true)
                    .serve_connection(io, service_fn(answer))
                    .await
            };
        });
    }
}
