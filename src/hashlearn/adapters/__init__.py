"""A SimilaritySearch in other frameworks: one module for each, with an extra of its name.

=======================  ==========================================  ===========================================
module                   gives                                       installed by
=======================  ==========================================  ===========================================
langchain                ``LangChainVectorStore``                    ``pip install 'hashlearn[langchain]'``
llama_index              ``LlamaIndexVectorStore``                   ``pip install 'hashlearn[llama-index]'``
haystack                 ``HaystackDocumentStore`` and a retriever   ``pip install 'hashlearn[haystack]'``
sklearn_neighbors        ``HashNeighborsTransformer``                hashlearn itself
mteb                     ``MTEBCodes``                               ``pip install 'hashlearn[mteb]'``
hub                      ``push_to_hub``, ``from_pretrained``        ``pip install 'hashlearn[hub]'``
=======================  ==========================================  ===========================================
"""
