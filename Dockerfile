# The first stage has the build backend; nothing of it but /opt/knowhub reaches the image.
FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ONLY_BINARY=:all:
WORKDIR /build

# What the server runs on, from its own lock file: requirements.lock holds test tools too, which have no place here.
COPY requirements-runtime.lock ./
RUN python -m venv /opt/knowhub \
 && /opt/knowhub/bin/python -m pip install --require-hashes -r requirements-runtime.lock

# The build backend, at the version and hash that the tests ran with.
COPY requirements-build.lock ./
RUN python -m venv /opt/build \
 && /opt/build/bin/python -m pip install --require-hashes -r requirements-build.lock

COPY pyproject.toml README.md LICENSE ./
COPY knowhub ./knowhub
COPY agent_tools ./agent_tools
COPY examples ./examples
RUN /opt/build/bin/python -m pip wheel --no-build-isolation --no-deps --wheel-dir /tmp/wheel . \
 && /opt/knowhub/bin/python -m pip install --no-index --no-deps /tmp/wheel/*.whl


FROM python:3.13-slim
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin knowhub \
 && install --directory --owner=knowhub --group=knowhub --mode=0700 /data
COPY --from=build /opt/knowhub /opt/knowhub

# A container must listen on all its interfaces to be published. Without auth the server refuses that until
# KNOWHUB_ALLOW_OPEN_BIND=yes is given beside it, as docker-compose.yml does, which publishes 127.0.0.1 only.
ENV PATH=/opt/knowhub/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    KNOWHUB_HOST=0.0.0.0 \
    KNOWHUB_PORT=8000 \
    KNOWHUB_DATA_DIR=/data
USER knowhub
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
CMD ["knowhub", "serve"]
