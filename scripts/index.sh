# Sourced: hands uv the index and the certificates that pip is configured for, since uv reads none of
# pip's settings. The argument is a Python that has pip.

# `pip config get` reads one of pip's files, `list` all of them.
setting() {
    "$1" -m pip --disable-pip-version-check config list 2>/dev/null |
        sed -n "s/^global\.$2='\(.*\)'\$/\1/p"
}

index=${PIP_INDEX_URL:-$(setting "$1" index-url)}
[ -n "$index" ] && export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$index}
certificates=${PIP_CERT:-$(setting "$1" cert)}
[ -n "$certificates" ] && export SSL_CERT_FILE=${SSL_CERT_FILE:-$certificates}
