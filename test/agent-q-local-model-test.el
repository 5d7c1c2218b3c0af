;;; agent-q-local-model-test.el --- Chats with a real model server  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; llama.cpp's server, which nobody here wrote, with the demo model, in each dialect that it speaks.  The
;; model is far too small to mean what it says; agent-q-provider-test.el has it call a tool.

;;; Code:

(require 'agent-q-provider)
(require 'agent-q-test)
(require 'agent-q-test-demo)
(require 'agent-q-test-registry)

(defun agent-q-local-model-test--await ()
  "Wait for the end of the turn; the model is slow on a busy machine."
  (let ((deadline (time-add nil 300)))
    (while (not (agent-q-test-idle-p))
      (when (time-less-p deadline nil)
        (ert-fail (list "Waited in vain" (agent-q-test-log))))
      (accept-process-output nil 0.05))))

(defmacro agent-q-local-model-test--in (dialect &rest body)
  "Run BODY in a chat that speaks to the demo model in DIALECT."
  (declare (indent 1) (debug t))
  `(let* ((demo (agent-q-test-demo-provider))
          (limit (if (eq ,dialect 'responses) :max_output_tokens :max_tokens))
          (agent-q-provider
           (list :name "llama.cpp" :base-url (alist-get 'base_url demo)
                 :model (alist-get 'model demo) :dialect ,dialect
                 :body (list :temperature 0 limit 24)))
          (agent-q-model nil)
          (agent-q-offered-tools '("t_look"))
          (agent-q-max-iterations 2))
     (agent-q-test-with-tools
         ((agent-q-test-tool "t_look" (lambda (_) "It is a function.") :safety-level :safe))
       (agent-q-test-with-chat
         ,@body))))

(defun agent-q-local-model-test--talk ()
  "Send two messages in the current chat; both must be answered."
  (dolist (question '("Look at mapcar." "And at car?"))
    (let ((before agent-q-chat-view-header-input))
      (agent-q-test-send question)
      (agent-q-local-model-test--await)
      (ert-info ((agent-q-test-log))
        (should-not (agent-q-test-shows "[Try again]"))
        ;; The server counted what came, with all that was said before.
        (should (> agent-q-chat-view-header-input (+ before 20)))
        (should (> agent-q-chat-view-header-output 0))))))

(ert-deftest agent-q-local-model-chat-completions ()
  (agent-q-local-model-test--in 'chat-completions
    (agent-q-local-model-test--talk)))

(ert-deftest agent-q-local-model-messages ()
  (agent-q-local-model-test--in 'messages
    (agent-q-local-model-test--talk)))

(ert-deftest agent-q-local-model-responses ()
  (agent-q-local-model-test--in 'responses
    (agent-q-local-model-test--talk)))

(ert-deftest agent-q-local-model-says-its-window ()
  "What the server itself says of its window is known where it is chosen."
  (let* ((demo (agent-q-test-demo-provider))
         (url (alist-get 'base_url demo))
         (agent-q-provider (list :name "here" :base-url url :model (alist-get 'model demo)))
         (agent-q-providers nil)
         (agent-q-provider--listed nil))
    (agent-q-provider-candidates)
    (should (> (or (plist-get (agent-q-model-facts-of url (alist-get 'model demo)) :window) 0) 500))))

(provide 'agent-q-local-model-test)
;;; agent-q-local-model-test.el ends here
