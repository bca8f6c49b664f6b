/* Owns: TLS for C++ servers: <uvhttp/tls.h>. May include: the public headers. */
#ifndef UVHTTP_TLS_HPP
#define UVHTTP_TLS_HPP

#include <uvhttp/exchange.hpp>

namespace uvhttp {

/** Certificates and settings of a listener: server.listen("0.0.0.0:443", tls). A copy is another reference.
 * Construction reads files, so it must not happen on a loop's thread. It throws UVHTTP_E_TLS_CERTIFICATE, and the log
 * names the file and the reason. */
class tls {
  public:
    /** Uses one certificate with its key, PEM files. Other settings are in `options`. */
    tls(const char *certificate_file, const char *key_file, uvhttp_tls_options_t options = {}) {
        uvhttp_tls_certificate_t one{};
        one.certificate_file = certificate_file;
        one.key_file = key_file;
        options.certificates = &one;
        options.certificate_count = 1;
        take(uvhttp_tls_new(&options));
    }
    explicit tls(const uvhttp_tls_options_t &options) {
        take(uvhttp_tls_new(&options));
    }
    /** uvhttp_tls_development: uses a certificate for localhost that is made in memory. */
    static tls development() {
        return tls(uvhttp_tls_development(nullptr));
    }
    /** uvhttp_tls_from_config: uses the fields tls_* of a configuration. */
    static tls from(const uvhttp_server_config_t &config) {
        return tls(uvhttp_tls_from_config(&config));
    }
    tls(const tls &other) noexcept : native_(uvhttp_tls_retain(other.native_)) {}
    tls(tls &&other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
    tls &operator=(tls other) noexcept {
        std::swap(native_, other.native_);
        return *this;
    }
    ~tls() {
        uvhttp_tls_release(native_);
    }

    /** uvhttp_tls_reload: reads the files again. Throws if one cannot be used; the old ones then stay in use. */
    void reload() {
        int status = uvhttp_tls_reload(native_);
        if (status != UVHTTP_OK) throw error(status, uvhttp_tls_error_text(native_));
    }
    uvhttp_tls_t *native() const noexcept {
        return native_;
    }

  private:
    explicit tls(uvhttp_tls_t *made) {
        take(made);
    }
    void take(uvhttp_tls_t *made) {
        if (!made) throw error(UVHTTP_E_TLS_CERTIFICATE);
        native_ = made;
    }

    uvhttp_tls_t *native_ = nullptr;
};

} // namespace uvhttp

#endif
