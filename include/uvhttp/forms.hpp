/* Owns: forms in request bodies for C++: <uvhttp/form.h>. May include: the public headers. */
#ifndef UVHTTP_FORMS_HPP
#define UVHTTP_FORMS_HPP

#include <uvhttp/exchange.hpp>

#if UVHTTP_WITH_FORMS

namespace uvhttp {

/** A file of a form. Views are valid as long as the request. */
class form_file {
  public:
    explicit form_file(const uvhttp_form_file_t &native) noexcept : native_(native) {}

    /** Returns the name of the input. */
    std::string_view field() const noexcept {
        return view(native_.field);
    }
    /** Returns the name of the file, safe to create; may be empty. */
    std::string_view name() const noexcept {
        return view(native_.name);
    }
    /** Returns the type claimed by the client; empty if there is none. */
    std::string_view content_type() const noexcept {
        return view(native_.content_type);
    }
    std::string_view data() const noexcept {
        return view(native_.data);
    }
    /** Return the name on disk and the bytes there, for a form that was saved (form::save). */
    std::string_view saved() const noexcept {
        return view(native_.saved);
    }
    std::uint64_t saved_size() const noexcept {
        return native_.saved_size;
    }
    /** uvhttp_form_file_save: writes it into the directory of the descriptor. Returns its name there; throws. Blocks.
     */
    std::string save(int directory, const char *name = nullptr) const {
        char made[UVHTTP_FORM_SAVED_NAME_SIZE];
        check(uvhttp_form_file_save(&native_, directory, name, made));
        return made;
    }
    const uvhttp_form_file_t &native() const noexcept {
        return native_;
    }

  private:
    uvhttp_form_file_t native_;
};

/** The form in a request's body: uvhttp::form form(req). Construction throws the codes of uvhttp_request_form;
 * uvhttp_error_http_status has their status. It is a view, valid as long as the request. */
class form {
  public:
    explicit form(const request &req, const uvhttp_form_limits_t &limits = {}) {
        check(uvhttp_request_form(req.native(), &limits, &native_));
    }
    /** uvhttp_request_save_form: writes the files into the directory. Only in a handler on a worker thread
     * (options.exec UVHTTP_EXEC_WORKER). */
    static form save(const request &req, int directory, const uvhttp_form_limits_t &limits = {}) {
        form made;
        check(uvhttp_request_save_form(req.native(), directory, &limits, &made.native_));
        return made;
    }

    /** Returns the first field of that name, decoded. */
    std::optional<std::string_view> field(const char *name) const noexcept {
        uvhttp_str_t value;
        return uvhttp_form_field(native_, name, &value) ? std::optional(view(value)) : std::nullopt;
    }
    /** Returns all fields in the order received, as pairs of name and value. */
    std::vector<std::pair<std::string_view, std::string_view>> fields() const {
        std::vector<std::pair<std::string_view, std::string_view>> all;
        uvhttp_str_t name, value;
        for (std::size_t i = 0; uvhttp_form_field_at(native_, i, &name, &value); i++)
            all.emplace_back(view(name), view(value));
        return all;
    }
    /** Returns the first file of the input of that name. */
    std::optional<form_file> file(const char *field) const noexcept {
        uvhttp_form_file_t found;
        return uvhttp_form_file(native_, field, &found) ? std::optional(form_file(found)) : std::nullopt;
    }
    std::vector<form_file> files() const {
        std::vector<form_file> all;
        uvhttp_form_file_t found;
        for (std::size_t i = 0; uvhttp_form_file_at(native_, i, &found); i++) all.emplace_back(found);
        return all;
    }
    uvhttp_form_t *native() const noexcept {
        return native_;
    }

  private:
    form() noexcept = default;

    uvhttp_form_t *native_ = nullptr;
};

} // namespace uvhttp

#endif
#endif
