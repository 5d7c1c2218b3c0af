;;; agent-q-seen-test.el --- What the model sees has not changed unseen  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Compares the golden files in test/fixtures/seen with what a model is sent.
;; `make seen' writes them; the difference then shows in the change.

;;; Code:

(require 'agent-q-test-seen)

(defun agent-q-seen-test--golden (file)
  "Return what the golden FILE holds, or nil."
  (let ((path (expand-file-name file agent-q-test-seen-directory)))
    (when (file-exists-p path)
      (with-temp-buffer
        (insert-file-contents path)
        (buffer-string)))))

(defun agent-q-seen-test--golden-files ()
  "Return the names of all golden files."
  (append '("prompt.md" "research.md" "offer.txt" "schemas.json")
          (mapcar (lambda (file) (concat "results/" file))
                  (directory-files (expand-file-name "results" agent-q-test-seen-directory)
                                   nil "\\.txt\\'"))))

(defun agent-q-seen-test--write (seen)
  "Make SEEN, an alist of file names and texts, the golden files."
  (dolist (file (agent-q-seen-test--golden-files))
    (delete-file (expand-file-name file agent-q-test-seen-directory)))
  (pcase-dolist (`(,file . ,text) seen)
    (let ((coding-system-for-write 'utf-8-unix))
      (write-region text nil (expand-file-name file agent-q-test-seen-directory)
                    nil 'silent))))

(defun agent-q-seen-test--difference (golden text)
  "Return the first lines in which GOLDEN and TEXT differ, or nil."
  (cl-loop for expected = (split-string (or golden "") "\n") then (cdr expected)
           for actual = (split-string text "\n") then (cdr actual)
           while (or expected actual)
           unless (equal (car expected) (car actual))
           return (list :golden (seq-take expected 3) :now (seq-take actual 3))))

(ert-deftest agent-q-seen-is-what-the-golden-files-say ()
  "Schemas, prompt and a result of each tool are as the golden files have them."
  :tags '(:image)
  ;; Nothing else of this file uses the image, so it is fresh, and the only one.
  (let* ((connection (or (agent-q-test-image-connection 'slime)
                         (ert-skip "No SBCL through SLIME")))
         (seen (agent-q-test-seen-collect connection)))
    (if (getenv "AGENT_Q_WRITE_SEEN")
        (agent-q-seen-test--write seen)
      (should (equal (sort (agent-q-seen-test--golden-files) #'string<)
                     (sort (mapcar #'car seen) #'string<)))
      (let ((differences
             (cl-loop for (file . text) in seen
                      for difference = (agent-q-seen-test--difference
                                        (agent-q-seen-test--golden file) text)
                      when difference collect (cons file difference))))
        (when differences
          (ert-fail (list "Differs from the golden files (make seen writes them)"
                          differences)))))))

(ert-deftest agent-q-seen-every-tool-is-called ()
  "The golden files have a result of each built-in tool."
  (agent-q-registry-ensure)
  (should-not (cl-set-difference (agent-q-list-registered-tools)
                                 (mapcar #'car (agent-q-test-seen-calls))
                                 :test #'equal)))

(provide 'agent-q-seen-test)
;;; agent-q-seen-test.el ends here
