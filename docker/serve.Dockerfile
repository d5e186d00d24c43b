# The reward server for training:
#
#   docker build -f docker/serve.Dockerfile -t pluralrm-serve .
#   docker run --rm -p 127.0.0.1:8000:8000 -e REWARD_TOKEN -v "$PWD/model:/srv/model:ro" \
#     pluralrm-serve hf:/srv/model --host 0.0.0.0 --port 8000 --token-env REWARD_TOKEN
#
# Loopback inside a container is the container's own: to be reached, the server listens on 0.0.0.0, which it refuses
# without a token. -p 127.0.0.1:... keeps it on this machine. The token comes from the environment at run time; the image
# holds no key. Add --gpus all for a GPU; EXTRAS=serve makes an image without PyTorch.
FROM python:3.13.5-slim-bookworm AS built
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
ARG EXTRAS=serve,hf
RUN python -m venv /opt/pluralrm \
    && /opt/pluralrm/bin/pip install --no-cache-dir ".[${EXTRAS}]"

FROM python:3.13.5-slim-bookworm
COPY --from=built /opt/pluralrm /opt/pluralrm
ENV PATH=/opt/pluralrm/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --no-create-home pluralrm \
    && install --directory --owner pluralrm /srv
USER 10001
WORKDIR /srv
EXPOSE 8000
ENTRYPOINT ["pluralrm", "serve"]
CMD ["--help"]
