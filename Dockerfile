# hashlearn serve, as a user without rights, with a root file system that may be read-only.
FROM python:3.12-slim AS build
COPY . /source
RUN python -m venv /opt/hashlearn \
    && /opt/hashlearn/bin/pip install --no-cache-dir "/source[server]"

FROM python:3.12-slim
COPY --from=build /opt/hashlearn /opt/hashlearn
# Compiled loops are kept here; without the volume they are compiled at each start, which takes some seconds.
ENV PATH=/opt/hashlearn/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/cache
RUN useradd --system --uid 10001 --no-create-home hashlearn \
    && mkdir /cache /data \
    && chown hashlearn /cache /data
USER hashlearn
VOLUME ["/cache", "/data"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=120s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["hashlearn", "serve"]
CMD ["/data/search", "--host", "0.0.0.0", "--port", "8000"]
