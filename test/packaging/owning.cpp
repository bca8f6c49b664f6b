/* Owns: the proof that what a coroutine gives away is destroyed once, whatever the compiler and its optimization: jobs,
 * items of channels and arguments of coroutines that hold a shared_ptr. Runs under AddressSanitizer. With
 * AWAIT_TEMPORARY it has a line that g++ before version 13 compiles wrongly: there it must not compile. */
#include <arpa/inet.h>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <uvhttp.hpp>

struct document {
    std::string text = "a text that does not fit into the string itself";
    std::string read() const {
        return text;
    }
};
using shared = std::shared_ptr<document>;
struct item { /* made from braces: it has no constructor */
    shared what;
    std::string name;
};
using result = uvhttp::task<std::string>;

static result in_a_variable(uvhttp::server &server, shared file) {
    auto reading = server.work([file] { return file->read(); });
    std::string text = co_await reading;
    co_return text;
}
static result moved(uvhttp::server &server, shared file) {
    auto job = [file = std::move(file)] { return file->read(); };
    auto reading = server.work(std::move(job));
    co_return co_await reading;
}
static result as_arguments(uvhttp::server &server, shared file) {
    std::string text = co_await server.work([](shared it) { return it->read(); }, file);
    text = co_await server.work([](const shared &it, std::string) { return it->read(); }, shared(file), text + text);
    co_return text;
}
static result method(uvhttp::server &server, shared file) {
    co_return co_await server.work(&document::read, file) + co_await server.work([] { return std::string(); });
}
static result by_reference(uvhttp::server &server, shared file) {
    co_return co_await server.work([&file] { return file->read(); });
}
static result thrown(uvhttp::server &server, shared file) {
    auto throwing = server.work([file]() -> std::string { throw std::runtime_error(file->read()); });
    std::string text;
    try {
        text = co_await throwing;
    } catch (const std::runtime_error &error) {
        text = error.what();
    }
    co_return text;
}
static result through_a_channel(uvhttp::server &, shared file) {
    uvhttp::channel<shared> files(1);
    uvhttp::channel<item> items(1);
    co_await files.send(file);
    auto passed = co_await files.receive();
    auto sending = items.send({*passed, "a name that is long enough to be allocated"});
    co_await sending;
    auto got = co_await items.receive();
    co_return got->what->read();
}
static result pass_on(shared file, std::string text) {
    co_await uvhttp::sleep(std::chrono::milliseconds(0));
    co_return file ? text : "";
}
static result as_parameters(uvhttp::server &, shared file) {
    co_return co_await pass_on(shared(file), file->text + "") + co_await pass_on(file, std::string());
}
#ifdef AWAIT_TEMPORARY
static result temporary(uvhttp::server &server, shared file) {
    std::string text = co_await server.work([file] { return file->read(); });
    uvhttp::channel<item> items(1);
    co_await items.send({file, text});
    co_return text;
}
#endif

static std::string get(std::uint16_t port, const std::string &path) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string sent = "GET " + path + " HTTP/1.0\r\n\r\n", got;
    char memory[1000];
    if (connect(fd, reinterpret_cast<sockaddr *>(&to), sizeof to) == 0 && send(fd, sent.data(), sent.size(), 0) > 0)
        for (ssize_t size; (size = recv(fd, memory, sizeof memory, 0)) > 0;)
            got.append(memory, static_cast<std::size_t>(size));
    close(fd);
    return got;
}

int main() {
    auto file = std::make_shared<document>();
    uvhttp::server server{{.io_threads = 1}};
    std::vector<std::string> paths;
    auto add = [&](const char *path, auto coroutine) {
        server.get(path, [&server, &file, coroutine](uvhttp::request &) -> uvhttp::task<uvhttp::response> {
            std::string text = co_await coroutine(server, file);
            co_return uvhttp::text(200, std::move(text));
        });
        paths.push_back(path);
    };
    add("/in_a_variable", in_a_variable);
    add("/moved", moved);
    add("/as_arguments", as_arguments);
    add("/method", method);
    add("/by_reference", by_reference);
    add("/thrown", thrown);
    add("/through_a_channel", through_a_channel);
    add("/as_parameters", as_parameters);
#ifdef AWAIT_TEMPORARY
    add("/temporary", temporary);
#endif
    std::uint16_t port = server.listen("127.0.0.1:0");
    std::thread thread([&server] { (void)server.run(); });
    std::string wrong;
    for (int round = 0; round < 3; round++)
        for (const auto &path : paths)
            if (!get(port, path).ends_with("\r\n\r\n" + file->text)) wrong = path;
    server.stop();
    thread.join();
    if (wrong.empty() && file.use_count() != 1) wrong = "references: " + std::to_string(file.use_count());
    std::puts(wrong.empty() ? uvhttp_version() : wrong.c_str());
    return 0;
}
