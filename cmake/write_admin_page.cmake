# Owns: admin_page.h, the dashboard as C: its bytes, and the hashes of its script and its style for its Content-Security-Policy.
# cmake -DPAGE=admin_page.html -DOUTPUT=admin_page.h -P write_admin_page.cmake

# "sha256-" and the base64 of the SHA-256 of `text`.
function(write_hash out text)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(SHA256 hex "${text}")
  set(base64 "")
  foreach(at RANGE 0 57 6) # 10 groups of three bytes
    string(SUBSTRING "${hex}" ${at} 6 group)
    foreach(shift IN ITEMS 18 12 6 0)
      math(EXPR digit "(0x${group} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${digit} 1 letter)
      string(APPEND base64 "${letter}")
    endforeach()
  endforeach()
  string(SUBSTRING "${hex}" 60 4 group) # and two bytes
  foreach(shift IN ITEMS 12 6 0)
    math(EXPR digit "((0x${group} << 2) >> ${shift}) & 63")
    string(SUBSTRING "${alphabet}" ${digit} 1 letter)
    string(APPEND base64 "${letter}")
  endforeach()
  set(${out} "sha256-${base64}=" PARENT_SCOPE)
endfunction()

# What stands between the first `start` and the first `end` of the page.
function(read_between out start end)
  string(FIND "${page}" "${start}" from)
  string(LENGTH "${start}" size)
  math(EXPR from "${from} + ${size}")
  string(SUBSTRING "${page}" ${from} -1 rest)
  string(FIND "${rest}" "${end}" to)
  string(SUBSTRING "${rest}" 0 ${to} text)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

file(READ "${PAGE}" page)
read_between(style "<style>" "</style>")
read_between(script "<script>" "</script>")
write_hash(style_hash "${style}")
write_hash(script_hash "${script}")
file(READ "${PAGE}" hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE "${OUTPUT}" "/* Made by cmake/write_admin_page.cmake. */
#define UVHTTP__ADMIN_PAGE_STYLE \"${style_hash}\"
#define UVHTTP__ADMIN_PAGE_SCRIPT \"${script_hash}\"
static const unsigned char uvhttp__admin_page_bytes[] = {
${bytes}
};
")
