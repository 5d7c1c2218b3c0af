;;; agent-q-key-test.el --- Where a key is not  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Plants a key in auth-source, has a chat use it in good and bad times, and then looks for it
;; everywhere that it could have got to.

;;; Code:

(require 'agent-q-doctor)
(require 'agent-q-provider)
(require 'agent-q-chat-commands)
(require 'agent-q-test)
(require 'agent-q-test-registry)

(defconst agent-q-key-test--key "planted-0f3a9c77-key-5d21e8b4"
  "A key that is like no other text.")

(defun agent-q-key-test--in-buffers ()
  "Return the names of the buffers that show the key, also where it is hidden."
  (mapcar #'buffer-name
          (seq-filter (lambda (buffer)
                        (with-current-buffer buffer
                          (save-restriction
                            (widen)
                            (string-search agent-q-key-test--key (buffer-string)))))
                      (buffer-list))))

(defun agent-q-key-test--in-variables ()
  "Return agent-q's variables, of Emacs and of each buffer, that have the key."
  (let ((found nil)
        (print-circle t))
    (dolist (buffer (buffer-list) found)
      (with-current-buffer buffer
        (mapatoms
         (lambda (symbol)
           (when (and (boundp symbol)
                      (string-prefix-p "agent-q-" (symbol-name symbol))
                      (not (string-prefix-p "agent-q-key-test" (symbol-name symbol)))
                      (or (local-variable-p symbol) (eq buffer (car (buffer-list)))))
             (when (string-search agent-q-key-test--key
                                  (format "%S" (symbol-value symbol)))
               (push symbol found)))))))))

(defun agent-q-key-test--in-files (directory)
  "Return the files below DIRECTORY that have the key."
  (seq-filter (lambda (file)
                (with-temp-buffer
                  (insert-file-contents-literally file)
                  (search-forward agent-q-key-test--key nil t)))
              (directory-files-recursively directory "")))

(defun agent-q-key-test--in-processes ()
  "Return the command lines and environments of processes that have the key."
  (seq-filter (lambda (file)
                (with-temp-buffer
                  (and (ignore-errors (insert-file-contents-literally file) t)
                       (progn (goto-char (point-min))
                              (search-forward agent-q-key-test--key nil t)))))
              (append (file-expand-wildcards "/proc/[0-9]*/cmdline")
                      (file-expand-wildcards "/proc/[0-9]*/environ"))))

(defconst agent-q-key-test--script
  (format "{\"turns\":[
     {\"steps\":[{\"tool_calls\":[{\"name\":\"t_run\",\"arguments\":{\"text\":\"1\"}}]}]},
     {\"steps\":[{\"text\":\"Fine.\"}]},
     {\"status\":401,\"body\":{\"error\":{\"message\":\"Wrong key %s given.\"}}},
     {\"status\":307,\"headers\":{\"location\":\"http://127.0.0.1:9/v1\"}},
     {\"steps\":[{\"text\":\"So far\"},{\"cut\":true}]},
     {\"steps\":[{\"text\":\"The end.\"}]}]}"
          agent-q-key-test--key)
  "A server that answers, echoes the key, sends elsewhere, breaks off, and answers.")

(ert-deftest agent-q-key-is-nowhere ()
  (let* ((directory (make-temp-file "agent-q-key" t))
         (authinfo (make-temp-file "agent-q-authinfo" nil nil
                                   (format "machine 127.0.0.1 login apikey password %s\n"
                                           agent-q-key-test--key)))
         (auth-sources (list authinfo))
         (agent-q-log-level 'trace)
         (agent-q-provider-recordings (expand-file-name "recordings" directory))
         (agent-q-chat-history-directory (expand-file-name "chats" directory))
         (agent-q-save-chats t)
         (debug-on-error nil)
         (shown nil))
    (auth-source-forget-all-cached)
    (unwind-protect
        (agent-q-test-with-tools ((agent-q-test-tool "t_run" (lambda (_) "It ran.")
                                                     :safety-level :safe))
          (agent-q-test-with-model agent-q-key-test--script
            (let ((agent-q-provider (list :name "scripted" :model "scripted"
                                          :base-url (plist-get agent-q-provider :base-url))))
              (agent-q-test-with-chat
                (dotimes (_ 5)
                  (agent-q-test-ask "go"))
                (should (agent-q-test-shows "The end."))
                (should (agent-q-test-shows "Wrong key [redacted] given."))
                (with-temp-buffer
                  (insert-file-contents agent-q-test-requests)
                  ;; It was used.
                  (should (= 6 (how-many (concat "Bearer " agent-q-key-test--key)))))
                ;; What an error in a handler of ours would show.
                (setq shown (with-output-to-string (backtrace)))
                (agent-q-show-request)
                (agent-q-test-until (get-buffer "*agent-q request*"))
                (save-window-excursion (agent-q-doctor) (agent-q-report-bug))
                (should-not (string-search agent-q-key-test--key shown))
                (should-not (agent-q-key-test--in-buffers))
                (should-not (agent-q-key-test--in-variables))
                ;; Where it is, it is found.
                (with-temp-buffer
                  (insert agent-q-key-test--key)
                  (setq-local agent-q-instructions agent-q-key-test--key)
                  (should (agent-q-key-test--in-buffers))
                  (should (equal (agent-q-key-test--in-variables) '(agent-q-instructions))))
                (should-not (agent-q-key-test--in-processes))
                (agent-q-test-until
                 (= 6 (length (directory-files agent-q-provider-recordings nil "\\.json\\'"))))
                (agent-q-test-until
                 (ignore-errors
                   (directory-files agent-q-chat-history-directory nil "\\.jsonl\\'")))
                (should-not (agent-q-key-test--in-files directory))
                (with-temp-buffer
                  (insert-file-contents agent-q-log-file)
                  (should (search-forward "request" nil t))
                  (goto-char (point-min))
                  (should-not (search-forward agent-q-key-test--key nil t)))))))
      (auth-source-forget-all-cached)
      (delete-file authinfo)
      (delete-directory directory t))))

(provide 'agent-q-key-test)
;;; agent-q-key-test.el ends here
